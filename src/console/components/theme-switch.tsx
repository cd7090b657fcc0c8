import { useEffect, useState } from 'preact/hooks';

const THEMES = ['system', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];
const STORED = 'waybill-theme';

/** Light, dark, or as the system has it; the browser remembers. */
export function ThemeSwitch() {
  const [theme, setTheme] = useState(storedTheme);
  useEffect(() => {
    applyTheme(theme);
    localStorage.setItem(STORED, theme);
  }, [theme]);
  return (
    <label>
      <span>Theme</span>
      <select value={theme} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
        {THEMES.map((name) => (
          <option key={name} value={name}>
            {name[0]?.toUpperCase() + name.slice(1)}
          </option>
        ))}
      </select>
    </label>
  );
}

export function storedTheme(): Theme {
  const stored = localStorage.getItem(STORED);
  return THEMES.find((name) => name === stored) ?? 'system';
}

export function applyTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
}
