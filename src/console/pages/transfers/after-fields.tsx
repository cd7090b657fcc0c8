import type { SourceAction } from '../../../domain/transfers/after.ts';
import type { After, AfterRequest, TransferDetail } from '../../api/api-types.ts';
import { Field } from '../../components/forms/field.tsx';

/** What to do after a transfer, as the form has it. */
export interface AfterChoice {
  source: 'keep' | 'delete' | 'move';
  folder: string;
  marker: string;
}

export const NOTHING_AFTER: AfterChoice = { source: 'keep', folder: 'processed/', marker: '' };

/** The fields of a request that these fields are about. */
export const AFTER_FIELDS = ['after.source', 'after.source.move_to', 'after.destination_marker'];

/** Returns the choice of a transfer that is repeated, or none. */
export function afterOf(transfer: Pick<TransferDetail, 'after'> | null): AfterChoice {
  if (!transfer?.after) return NOTHING_AFTER;
  const source = transfer.after.source as SourceAction;
  const marker = transfer.after.destination_marker ?? '';
  return typeof source === 'object'
    ? { source: 'move', folder: source.move_to, marker }
    : { ...NOTHING_AFTER, source, marker };
}

/** Returns the choice for a request. Without one, `after` is absent. */
export function chosenAfter({ source, folder, marker }: AfterChoice): { after?: AfterRequest } {
  if (source === 'keep' && marker === '') return {};
  return {
    after: {
      source: source === 'move' ? { move_to: folder } : source,
      ...(marker !== '' && { destination_marker: marker }),
    },
  };
}

/** Returns the steps after the copy, in words. */
export function afterInWords({ source: shown, destination_marker }: After): string {
  const source = shown as SourceAction;
  const marker = destination_marker === null ? [] : [`write the marker ${destination_marker}`];
  const action =
    source === 'keep'
      ? []
      : [source === 'delete' ? 'delete the source' : `move the source to ${source.move_to}`];
  const words = [...marker, ...action].join(', then ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

interface AfterFieldsProps {
  value: AfterChoice;
  onChange: (value: AfterChoice) => void;
  errors: Record<string, string | undefined>;
}

/** What becomes of the source, and which marker is written, once a file is copied. */
export function AfterFields({ value, onChange, errors }: AfterFieldsProps) {
  const { source, folder, marker } = value;
  return (
    <fieldset>
      <legend>After the copy</legend>
      <Field
        label="Source file"
        hint="Stays if it is not the file that was copied any more."
        error={errors['after.source']}
      >
        <select
          value={source}
          onChange={({ currentTarget }) =>
            onChange({ ...value, source: currentTarget.value as AfterChoice['source'] })
          }
        >
          <option value="keep">Keep</option>
          <option value="delete">Delete</option>
          <option value="move">Move to a folder</option>
        </select>
      </Field>
      {source === 'move' && (
        <Field
          label="Move it to"
          hint="A folder below that of the source"
          error={errors['after.source.move_to']}
        >
          <input
            autoComplete="off"
            spellcheck={false}
            value={folder}
            onInput={({ currentTarget }) => onChange({ ...value, folder: currentTarget.value })}
          />
        </Field>
      )}
      <Field
        label="Marker file"
        hint="An empty file beside the copy: its name, with this at the end. Empty for none."
        error={errors['after.destination_marker']}
      >
        <input
          autoComplete="off"
          spellcheck={false}
          placeholder=".done"
          value={marker}
          onInput={({ currentTarget }) =>
            onChange({ ...value, marker: currentTarget.value.trim() })
          }
        />
      </Field>
    </fieldset>
  );
}
