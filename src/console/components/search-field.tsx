import { useEffect, useState } from 'preact/hooks';

interface SearchFieldProps {
  label: string;
  /** What is looked for now. */
  value: string;
  placeholder: string;
  onSearch: (text: string) => void;
}

/** Takes what is typed when it is entered or left; until then it stands as it was typed, however often the page is drawn. */
export function SearchField({ label, value, placeholder, onSearch }: SearchFieldProps) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  return (
    <label class="wide">
      <span>{label}</span>
      <input
        type="search"
        value={typed}
        placeholder={placeholder}
        spellcheck={false}
        onInput={({ currentTarget }) => setTyped(currentTarget.value)}
        onChange={({ currentTarget }) => onSearch(currentTarget.value)}
      />
    </label>
  );
}
