interface FilterSelectProps {
  label: string;
  /** The chosen value. Without one, nothing is filtered. */
  value: string | undefined;
  options: [value: string, label: string][];
  /** Room for long texts. */
  wide?: boolean;
  /** Called with the value, or with an empty text for `All`. */
  onChange: (value: string) => void;
}

/** A filter of a list with some values, one of which can be chosen. */
export function FilterSelect({ label, value, options, wide, onChange }: FilterSelectProps) {
  return (
    <label class={wide ? 'wide' : undefined}>
      <span>{label}</span>
      <select value={value ?? ''} onChange={({ currentTarget }) => onChange(currentTarget.value)}>
        <option value="">All</option>
        {options.map(([name, text]) => (
          <option key={name} value={name}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
