import { existsSync, globSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const SOURCES = join(ROOT, 'src', 'console');
const BUILT = join(ROOT, 'dist', 'console');

/** Builds the Admin Console into `dist/console`, unless what stands there is newer than all that it is made of. Throws Vite's errors. */
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
      build: {
        outDir: fresh,
        emptyOutDir: true,
        // The oldest that know light-dark() of CSS, on which both themes rest.
        target: ['chrome123', 'firefox120', 'safari17.5'],
        // It would be a script in the page, which the page's policy forbids.
        modulePreload: { polyfill: false },
        // What is small must be a file too: the policy takes no style or font out of a data: URL.
        assetsInlineLimit: 0,
      },
    });
    replace(fresh);
    return true;
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

/** Another process may do the same at the same moment: one of the two stands then, and both are as good. */
function replace(fresh: string): void {
  rmSync(BUILT, { recursive: true, force: true });
  try {
    renameSync(fresh, BUILT);
  } catch (error) {
    if (!isUpToDate()) throw error;
  }
}

function isUpToDate(): boolean {
  const page = join(BUILT, 'index.html');
  if (!existsSync(page)) return false;
  const { mtimeMs } = statSync(page);
  const sources = globSync('**/*.*', { cwd: SOURCES }).map((file) => join(SOURCES, file));
  const made = [import.meta.filename, join(ROOT, 'package-lock.json'), ...sources];
  return made.every((file) => (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0) < mtimeMs);
}
