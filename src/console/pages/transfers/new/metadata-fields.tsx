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
          <button type="button" onClick={() => onChange(entries.filter((_, at) => at !== index))}>
            Remove<span class="visually-hidden"> {name || `entry ${index + 1}`}</span>
          </button>
        </div>
      ))}
      {entries.length < MAX_ENTRIES && (
        <div class="actions">
          <button type="button" onClick={() => onChange([...entries, ['', '']])}>
            Add
            <span class="visually-hidden"> metadata</span>
          </button>
        </div>
      )}
    </fieldset>
  );
}
