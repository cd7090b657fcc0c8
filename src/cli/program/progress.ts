import { terminal } from './terminal.ts';

const CELLS = 30;
const REDRAW_MS = 100;

export interface ProgressBar {
  /** Draws the bar, at most ten times a second. `share` is from 0 to 1. */
  show(share: number, text: string): void;
  /** Removes the bar from the screen. */
  clear(): void;
}

/** Creates a bar on the last line of stderr. Returns null if stderr is not a terminal. */
export function createProgressBar(): ProgressBar | null {
  const screen = terminal().stderr;
  if (!screen.isTTY || terminal().env.TERM === 'dumb') return null;
  let drawnAt = Number.NEGATIVE_INFINITY;
  return {
    show(share, text) {
      if (performance.now() - drawnAt < REDRAW_MS && share < 1) return;
      drawnAt = performance.now();
      const full = Math.round(Math.min(1, Math.max(0, share)) * CELLS);
      const percent = `${Math.floor(share * 100)} %`.padStart(5);
      const line = `[${'#'.repeat(full)}${'.'.repeat(CELLS - full)}] ${percent}  ${text}`;
      screen.write(`\r\x1b[K${line.slice(0, (screen.columns || 80) - 1)}`);
    },
    clear: () => screen.write('\r\x1b[K'),
  };
}
