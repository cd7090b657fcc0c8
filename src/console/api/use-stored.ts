import { useState } from 'preact/hooks';

/**
 * Keeps a value in the browser under a name. `parse` gets the stored value, which may have any
 * shape, or null. A change starts from the stored value, which another tab may have changed.
 */
export function useStored<T>(
  name: string,
  parse: (stored: unknown) => T,
): [value: T, change: (to: (before: T) => T) => void] {
  const read = () => parse(parsed(localStorage.getItem(name)));
  const [value, setValue] = useState(read);
  return [
    value,
    (to) => {
      const after = to(read());
      localStorage.setItem(name, JSON.stringify(after));
      setValue(after);
    },
  ];
}

function parsed(text: string | null): unknown {
  try {
    return JSON.parse(text ?? 'null');
  } catch {
    return null;
  }
}
