import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import { type DebianPrograms, debianPackages } from './debian.ts';

const PROGRAM = '/usr/lib/chromium/chromium';
const FONT = '/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf';

export interface Chromium {
  browser: Browser;
  /** Ends the browser with all its processes. */
  close(): Promise<void>;
}

/** null where Debian's Chromium can run here, else why not. Tests that need one are skipped with it. */
export async function whyNoChromium(): Promise<string | null> {
  const provided = await provide();
  return typeof provided === 'string' ? provided : null;
}

/** Starts a headless Chromium. Throws where `whyNoChromium` says why. */
export async function startChromium(): Promise<Chromium> {
  const provided = await provide();
  if (typeof provided === 'string') throw new Error(provided);
  const { program, fonts } = provided;
  const home = mkdtempSync(join(tmpdir(), 'waybill-chromium-'));
  writeFileSync(join(home, 'fonts.conf'), fontsIn(fonts.path('/usr/share/fonts'), home));
  const browser = await chromium.launch({
    executablePath: program.path(PROGRAM),
    env: { ...(program.env as Record<string, string>), HOME: home, FONTCONFIG_FILE: join(home, 'fonts.conf') },
    // As root it has no sandbox; and /dev/shm is small in containers.
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
  return {
    browser,
    async close() {
      await browser.close();
      rmSync(home, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

async function provide(): Promise<{ program: DebianPrograms; fonts: DebianPrograms } | string> {
  const program = await debianPackages(['chromium'], [PROGRAM]);
  if (!program.available) return program.reason;
  const fonts = await debianPackages(['fonts-dejavu-core'], [FONT]);
  return fonts.available ? { program, fonts } : fonts.reason;
}

/** The same letters on every machine: one family for fixed width, another for all else. */
function fontsIn(folder: string, home: string): string {
  return `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><dir>${folder}</dir><cachedir>${home}/cache</cachedir>
    <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
    <match><edit name="family" mode="append_last"><string>DejaVu Sans</string></edit></match></fontconfig>`;
}
