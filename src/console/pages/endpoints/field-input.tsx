import type { EndpointField } from '../../api/protocols.ts';
import { Field } from '../../components/forms/field.tsx';

interface FieldInputProps {
  field: EndpointField;
  value: string;
  error: string | undefined;
  onChange: (value: string) => void;
}

const PLAIN = { spellcheck: false, autoCapitalize: 'none', autoComplete: 'off' } as const;
const SECRET = { type: 'password', autoComplete: 'new-password' } as const;

/** Renders the control for the kind of a field. */
export function FieldInput({
  field: { label, kind, hint, placeholder },
  value,
  error,
  onChange,
}: FieldInputProps) {
  if (kind === 'yes-no') {
    return (
      <label class="choice">
        <input
          type="checkbox"
          checked={value === 'true'}
          onChange={({ currentTarget }) => onChange(String(currentTarget.checked))}
        />
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
      ) : kind === 'lines' || kind === 'host-keys' ? (
        <textarea
          class="mono"
          rows={kind === 'lines' ? 5 : 2}
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
