import { Field } from '../../components/field.tsx';
import type { EndpointField } from './fields.ts';

interface FieldInputProps {
  field: EndpointField;
  value: string;
  error: string | undefined;
  onChange: (value: string) => void;
}

const PLAIN = { spellcheck: false, autoCapitalize: 'none', autoComplete: 'off' } as const;
const SECRET = { type: 'password', autoComplete: 'new-password' } as const;

/** The control that a field's kind asks for. */
export function FieldInput({ field: { label, kind, hint, placeholder }, value, error, onChange }: FieldInputProps) {
  if (kind === 'yes-no') {
    return (
      <label class="choice">
        <input type="checkbox" checked={value === 'true'} onChange={({ currentTarget }) => onChange(String(currentTarget.checked))} />
        {label}
      </label>
    );
  }
  return (
    <Field label={label} hint={hint} error={error}>
      {typeof kind === 'object' ? (
        <select value={value} onChange={({ currentTarget }) => onChange(currentTarget.value)}>
          {kind.map((name) => (
            <option key={name} value={name}>
              {name || 'As the server has it'}
            </option>
          ))}
        </select>
      ) : kind === 'lines' ? (
        <textarea
          class="mono"
          rows={5}
          {...PLAIN}
          {...{ placeholder, value }}
          onInput={({ currentTarget }) => onChange(currentTarget.value)}
        />
      ) : (
        <input
          {...PLAIN}
          {...{ placeholder, value }}
          {...(kind === 'secret' ? SECRET : { inputMode: kind === 'number' ? 'numeric' : 'text' })}
          onInput={({ currentTarget }) => onChange(currentTarget.value)}
        />
      )}
    </Field>
  );
}
