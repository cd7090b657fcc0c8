import { useState } from 'preact/hooks';

const THEMES = ['system', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];
const STORED = 'waybill-theme';

/** Selects light, dark or the system's theme. The browser stores the choice. */
export function ThemeSwitch() {
  const [theme, setTheme] = useState(storedTheme);
  function choose(chosen: Theme): void {
    setTheme(chosen);
    applyTheme(chosen);
    localStorage.setItem(STORED, chosen);
  }
  return (
    <label>
      <span>Theme</span>
      <select value={theme} onChange={(event) => choose(event.currentTarget.value as Theme)}>
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
