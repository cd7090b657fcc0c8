import type { TransferDetail } from '../../api/operations.ts';
import { Field } from '../../components/field.tsx';

/** The options as the form has them. */
export interface Options {
  expected_sha256: string;
}

/** Returns the options of a transfer that is repeated, or none. */
export function optionsOf(transfer: TransferDetail | null): Options {
  return { expected_sha256: transfer?.expected_sha256 ?? '' };
}

/** Returns the options for a request. Those that are not chosen are absent. */
export function chosen({ expected_sha256 }: Options) {
  return { ...(expected_sha256 !== '' && { expected_sha256 }) };
}

interface OptionFieldsProps {
  options: Options;
  onChange: (options: Options) => void;
  errors: Record<string, string>;
}

/** What is asked of a transfer beyond the copy. */
export function OptionFields({ options, onChange, errors }: OptionFieldsProps) {
  return (
    <fieldset>
      <legend>Options</legend>
      <Field
        label="Expected SHA-256"
        hint="The transfer fails if the file has another one."
        error={errors.expected_sha256}
      >
        <input
          class="mono"
          autoComplete="off"
          spellcheck={false}
          value={options.expected_sha256}
          onInput={({ currentTarget }) =>
            onChange({ ...options, expected_sha256: currentTarget.value.trim() })
          }
        />
      </Field>
    </fieldset>
  );
}
