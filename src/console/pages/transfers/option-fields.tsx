import type { TransferDetail } from '../../api/api-types.ts';
import { Checkbox } from '../../components/forms/checkbox.tsx';
import { Field } from '../../components/forms/field.tsx';

/** The options as the form has them. */
export interface Options {
  expected_sha256: string;
  read_back: boolean;
  preserve_mtime: boolean;
}

type Shown = Pick<TransferDetail, 'expected_sha256' | 'verify' | 'preserve_mtime'>;

export const NO_OPTIONS: Options = { expected_sha256: '', read_back: false, preserve_mtime: false };

/** Returns the options of a transfer that is repeated, or none. */
export function optionsOf(transfer: Shown | null): Options {
  if (!transfer) return NO_OPTIONS;
  const { expected_sha256 = '', verify, preserve_mtime = false } = transfer;
  return { expected_sha256, read_back: verify === 'read_back', preserve_mtime };
}

/** Returns the options for a request. Those that are not chosen are absent. */
export function chosen({ expected_sha256, read_back, preserve_mtime }: Options): Shown {
  return {
    ...(expected_sha256 !== '' && { expected_sha256 }),
    ...(read_back && { verify: 'read_back' }),
    ...(preserve_mtime && { preserve_mtime }),
  };
}

/** Lists what is asked for, besides the expected SHA-256. */
export function optionsInWords({ verify, preserve_mtime }: Omit<Shown, 'expected_sha256'>) {
  const words = [verify && READ_BACK, preserve_mtime && PRESERVE_MTIME];
  return words.filter(Boolean).join(', ') || undefined;
}

const READ_BACK = 'Read back and compare';
const PRESERVE_MTIME = 'Keep the modification time';

interface OptionFieldsProps {
  options: Options;
  onChange: (options: Options) => void;
}

/** The options that all files of a batch can share. */
export function CommonOptionFields({ options, onChange }: OptionFieldsProps) {
  return (
    <>
      <Checkbox
        label={READ_BACK}
        checked={options.read_back}
        onChange={(checked) => onChange({ ...options, read_back: checked })}
      />
      <Checkbox
        label={PRESERVE_MTIME}
        checked={options.preserve_mtime}
        onChange={(checked) => onChange({ ...options, preserve_mtime: checked })}
      />
    </>
  );
}

/** What is asked of a transfer beyond the copy. */
export function OptionFields({
  options,
  onChange,
  error,
}: OptionFieldsProps & { error: string | undefined }) {
  return (
    <fieldset>
      <legend>Options</legend>
      <Field
        label="Expected SHA-256"
        hint="The transfer fails if the file has another one."
        error={error}
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
      <CommonOptionFields options={options} onChange={onChange} />
    </fieldset>
  );
}
