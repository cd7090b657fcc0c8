import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import { type DebianPrograms, debianPackages } from '../programs/debian.ts';

/**
 * Debian's packages of Chromium with their programs, the preferred one first. The headless shell
 * starts four times as fast. Older releases do not have it.
 */
const PACKAGES = {
  'chromium-headless-shell': '/usr/lib/chromium/chromium-headless-shell',
  chromium: '/usr/lib/chromium/chromium',
};
/** Must be beside the program. If the system has it, the cache does not. */
const DATA = '/usr/lib/chromium/icudtl.dat';
const FONT = '/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf';

export interface Chromium {
  browser: Browser;
  /** Ends the browser with all its processes. */
  close(): Promise<void>;
}

/**
 * Null if Debian's Chromium can run here, else the reason. Tests that need it are skipped with the
 * reason.
 */
export async function whyNoChromium(): Promise<string | null> {
  const provided = await provide();
  return typeof provided === 'string' ? provided : null;
}

/** Starts a headless Chromium. Throws if `whyNoChromium` returns a reason. */
export async function startChromium(): Promise<Chromium> {
  const provided = await provide();
  if (typeof provided === 'string') throw new Error(provided);
  const { program, executablePath, fonts } = provided;
  const home = mkdtempSync(join(tmpdir(), 'waybill-chromium-'));
  writeFileSync(join(home, 'fonts.conf'), fontsIn(fonts.path('/usr/share/fonts'), home));
  const browser = await chromium.launch({
    executablePath,
    env: {
      ...(program.env as Record<string, string>),
      HOME: home,
      FONTCONFIG_FILE: join(home, 'fonts.conf'),
    },
    args: [
      // Root gets no sandbox, and /dev/shm is small in containers.
      '--no-sandbox',
      '--disable-dev-shm-usage',
      // Fewer processes: each page of another site would start one, and so does the drawing. That
      // took a fifth of the CPU time of all tests of the console.
      '--in-process-gpu',
      '--disable-site-isolation-trials',
      '--renderer-process-limit=1',
    ],
  });
  return {
    browser,
    async close() {
      await browser.close();
      rmSync(home, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

interface Provided {
  program: DebianPrograms;
  executablePath: string;
  fonts: DebianPrograms;
}

async function provide(): Promise<Provided | string> {
  const fonts = await debianPackages(['fonts-dejavu-core'], [FONT]);
  if (!fonts.available) return fonts.reason;
  let reason = '';
  for (const [name, file] of Object.entries(PACKAGES)) {
    const program = await debianPackages([name], [file, DATA]);
    if (program.available) return { program, executablePath: program.path(file), fonts };
    reason = program.reason;
  }
  return reason;
}

/**
 * Selects the same fonts on every machine: one fixed-width family, and another for all other text.
 */
function fontsIn(folder: string, home: string): string {
  return `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><dir>${folder}</dir><cachedir>${home}/cache</cachedir>
    <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
    <match><edit name="family" mode="append_last"><string>DejaVu Sans</string></edit></match></fontconfig>`;
}
