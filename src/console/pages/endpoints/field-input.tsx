import type { EndpointField } from '../../api/protocols.ts';
import { Checkbox } from '../../components/forms/checkbox.tsx';
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
      <Checkbox
        label={label}
        checked={value === 'true'}
        onChange={(checked) => onChange(String(checked))}
      />
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
