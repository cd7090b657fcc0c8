import { existsSync, globSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const SOURCES = join(ROOT, 'src', 'console');
/** What the console shares with the service. */
const SHARED = join(ROOT, 'src', 'domain', 'attention.ts');
const BUILT = join(ROOT, 'dist', 'console');

/**
 * Builds the Admin Console into `dist/console` and returns true. Returns false if the build there
 * is newer than all of its sources. Throws Vite's errors.
 */
export async function buildConsole(): Promise<boolean> {
  if (!existsSync(SOURCES) || isUpToDate()) return false;
  const { build } = await import('vite');
  const fresh = `${BUILT}.${process.pid}`;
  try {
    await build({
      configFile: false,
      root: SOURCES,
      base: '/console/',
      logLevel: 'error',
      // Else the build of a test has the place of every element in the sources.
      oxc: { jsx: { runtime: 'automatic', importSource: 'preact', development: false } },
      build: {
        outDir: fresh,
        emptyOutDir: true,
        // The oldest browsers with light-dark() of CSS, which both themes use.
        target: ['chrome123', 'firefox120', 'safari17.5'],
        // The polyfill is an inline script, which the page's policy forbids.
        modulePreload: { polyfill: false },
        // Small assets must be files: the policy allows no style or font from a data: URL.
        assetsInlineLimit: 0,
      },
    });
    replace(fresh);
    return true;
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

/**
 * Replaces the build. Others may do so at the same time: any of their results is valid. A rename
 * takes the whole old build away at once; two removals at a time would leave parts of it.
 */
function replace(fresh: string): void {
  const old = `${fresh}.old`;
  for (let attempt = 1; ; attempt++) {
    try {
      if (existsSync(BUILT)) renameSync(BUILT, old);
      renameSync(fresh, BUILT);
      return;
    } catch (error) {
      // Another process has taken the old build, or has put its own there meanwhile.
      if (attempt === 10) throw error;
    } finally {
      rmSync(old, { recursive: true, force: true });
    }
  }
}

function isUpToDate(): boolean {
  const page = join(BUILT, 'index.html');
  if (!existsSync(page)) return false;
  const { mtimeMs } = statSync(page);
  const sources = globSync('**/*.*', { cwd: SOURCES }).map((file) => join(SOURCES, file));
  const made = [import.meta.filename, join(ROOT, 'package-lock.json'), SHARED, ...sources];
  return made.every((file) => (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0) < mtimeMs);
}
