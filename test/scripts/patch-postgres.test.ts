import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { patchPostgres } from '../../scripts/patch-postgres.ts';

const PROJECT = resolve(import.meta.dirname, '../..');
const FILES = ['connection.js', 'query.js', 'queue.js', 'index.js'];

describe('the changes to the driver', () => {
  let root: string;
  let driver: string;
  /** A project with the driver as npm installs it. */
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'waybill-driver-'));
    driver = join(root, 'node_modules', 'postgres');
    cpSync(join(PROJECT, 'node_modules', 'postgres'), driver, { recursive: true });
    for (const file of FILES) {
      const shipped = join(driver, 'src', `${file}.shipped`);
      if (existsSync(shipped)) renameSync(shipped, join(driver, 'src', file));
    }
    // Node.js looks for the driver beside the file itself: what may import it is copied, not linked.
    for (const folder of ['adapters/postgres', 'domain'])
      cpSync(join(PROJECT, 'src', folder), join(root, 'src', folder), { recursive: true });
    const packages = readdirSync(join(PROJECT, 'node_modules'));
    for (const name of packages.filter((each) => each !== 'postgres'))
      symlinkSync(join(PROJECT, 'node_modules', name), join(root, 'node_modules', name));
    cpSync(join(PROJECT, 'package.json'), join(root, 'package.json'));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  const text = (file: string) => readFileSync(join(driver, 'src', file), 'utf8');
  const load = () =>
    execFileSync(process.execPath, [join(root, 'src/adapters/postgres/connect.ts')], {
      encoding: 'utf8',
      stdio: 'pipe',
    });

  it('are required by connect.ts, which says how to apply them', () => {
    expect(load).toThrow('Run `bin/node scripts/set-up.ts`');
    patchPostgres(root);
    expect(load()).toBe('');
  });

  it('can be applied again, and replace those of an earlier version', () => {
    patchPostgres(root);
    const applied = FILES.map(text);
    patchPostgres(root);
    expect(FILES.map(text)).toEqual(applied);
    writeFileSync(join(driver, 'src', 'index.js'), '// of an earlier version');
    patchPostgres(root);
    expect(FILES.map(text)).toEqual(applied);
    expect(readdirSync(join(driver, 'src')).filter((name) => /\d$/.test(name))).toEqual([]);
  });

  it('are rejected for another version of the driver', () => {
    const manifest = join(driver, 'package.json');
    writeFileSync(manifest, readFileSync(manifest, 'utf8').replace('"3.4.9"', '"3.4.10"'));
    expect(() => patchPostgres(root)).toThrow('3.4.10 is installed');
    expect(text('index.js')).not.toContain('lostConnections');
  });

  it('are rejected for a text that differs, and neither file is marked as repaired', () => {
    const file = join(driver, 'src', 'connection.js');
    writeFileSync(file, text('connection.js').replace('function write(', 'function send('));
    expect(() => patchPostgres(root)).toThrow('run `npm ci`');
    expect(load).toThrow('set-up.ts');
  });
});
