import { useId, useRef } from 'preact/hooks';
import { invalidField } from '../../../api/client.ts';
import { METADATA_KEYS } from '../../../api/limits.ts';
import { useNextFocus } from '../../../components/forms/use-next-focus.ts';

type Entry = [name: string, value: string];

interface MetadataFieldsProps {
  entries: Entry[];
  onChange: (entries: Entry[]) => void;
  errors: Record<string, string>;
}

/** What errors call an entry: `metadata.order`, or `metadata."order date"`. */
const namesOf = (name: string) => [`metadata.${name}`, `metadata.${JSON.stringify(name)}`];

/** Returns the names of the request's fields that these entries have. */
export const metadataNames = (entries: Entry[]) => entries.flatMap(([name]) => namesOf(name));

/** Returns the entries as the request has them. Throws RequestFailed if two have the same name. */
export function metadataOf(entries: Entry[]): Record<string, string> {
  const filled = entries.filter(([name, value]) => name !== '' || value !== '');
  const metadata = Object.fromEntries(filled);
  const twice = filled.find(([name, value]) => metadata[name] !== value);
  if (twice) throw invalidField(`metadata.${twice[0]}`, 'Two entries have this name');
  return metadata;
}

/** Names and values that the user attaches to a transfer. */
export function MetadataFields({ entries, onChange, errors }: MetadataFieldsProps) {
  const id = useId();
  const change = (index: number, entry: Entry) =>
    onChange(entries.map((old, at) => (at === index ? entry : old)));
  const fields = useRef<HTMLFieldSetElement>(null);
  const focusNext = useNextFocus();
  const add = useRef<HTMLButtonElement>(null);
  function remove(index: number): void {
    // The button that was pressed goes, and the focus would be lost with it.
    add.current?.focus();
    onChange(entries.filter((_, at) => at !== index));
  }
  function append(): void {
    focusNext(() => [...(fields.current?.querySelectorAll('input') ?? [])].at(-2));
    onChange([...entries, ['', '']]);
  }
  return (
    <fieldset ref={fields}>
      <legend>Metadata</legend>
      {entries.map(([name, value], index) => {
        const error = namesOf(name)
          .map((field) => errors[field])
          .find(Boolean);
        const invalid = error && {
          'aria-invalid': true,
          'aria-describedby': `${id}-${index}`,
        };
        return (
          <div class="metadata" key={index}>
            <input
              aria-label={`Name ${index + 1}`}
              placeholder="Name"
              value={name}
              onInput={({ currentTarget }) => change(index, [currentTarget.value, value])}
              {...invalid}
            />
            <input
              aria-label={`Value ${index + 1}`}
              placeholder="Value"
              value={value}
              onInput={({ currentTarget }) => change(index, [name, currentTarget.value])}
              {...invalid}
            />
            <button type="button" onClick={() => remove(index)}>
              Remove<span class="visually-hidden"> {name || `entry ${index + 1}`}</span>
            </button>
            {error && (
              <p class="error" id={`${id}-${index}`}>
                {error}
              </p>
            )}
          </div>
        );
      })}
      {entries.length < METADATA_KEYS && (
        <div class="actions">
          <button ref={add} type="button" onClick={append}>
            Add
            <span class="visually-hidden"> metadata</span>
          </button>
        </div>
      )}
    </fieldset>
  );
}
