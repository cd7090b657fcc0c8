import { useEffect, useRef, useState } from 'preact/hooks';

interface SearchFieldProps {
  label: string;
  /** The text that the page searches for now. */
  value: string;
  placeholder: string;
  onSearch: (text: string) => void;
}

/**
 * Searches on Enter or when the field loses the focus. Until then it keeps the typed text, even if
 * the page renders again.
 */
export function SearchField({ label, value, placeholder, onSearch }: SearchFieldProps) {
  const [typed, setTyped] = useState(value);
  const shown = useRef(value);
  useEffect(() => {
    // The first run may come after the first letter.
    if (shown.current !== value) setTyped(value);
    shown.current = value;
  }, [value]);
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
