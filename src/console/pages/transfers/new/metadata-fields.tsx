import { useRef } from 'preact/hooks';

interface MetadataFieldsProps {
  entries: [name: string, value: string][];
  onChange: (entries: [name: string, value: string][]) => void;
}

/** `METADATA_KEYS` of the API. `test/console/api.test.ts` compares the two. */
const MAX_ENTRIES = 10;

/** Names and values that the user attaches to a transfer. */
export function MetadataFields({ entries, onChange }: MetadataFieldsProps) {
  const change = (index: number, entry: [string, string]) =>
    onChange(entries.map((old, at) => (at === index ? entry : old)));
  const add = useRef<HTMLButtonElement>(null);
  function remove(index: number): void {
    // The button that was pressed goes, and the focus would be lost with it.
    add.current?.focus();
    onChange(entries.filter((_, at) => at !== index));
  }
  return (
    <fieldset>
      <legend>Metadata</legend>
      {entries.map(([name, value], index) => (
        <div class="metadata" key={index}>
          <input
            aria-label={`Name ${index + 1}`}
            placeholder="Name"
            value={name}
            onInput={({ currentTarget }) => change(index, [currentTarget.value, value])}
          />
          <input
            aria-label={`Value ${index + 1}`}
            placeholder="Value"
            value={value}
            onInput={({ currentTarget }) => change(index, [name, currentTarget.value])}
          />
          <button type="button" onClick={() => remove(index)}>
            Remove<span class="visually-hidden"> {name || `entry ${index + 1}`}</span>
          </button>
        </div>
      ))}
      {entries.length < MAX_ENTRIES && (
        <div class="actions">
          <button ref={add} type="button" onClick={() => onChange([...entries, ['', '']])}>
            Add
            <span class="visually-hidden"> metadata</span>
          </button>
        </div>
      )}
    </fieldset>
  );
}
