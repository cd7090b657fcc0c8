import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

const BIN_NODE = fileURLToPath(new URL('../bin/node', import.meta.url));
let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'waybill-node-'));
  mkdirSync(join(root, 'bin'));
  mkdirSync(join(root, 'path'));
  cpSync(BIN_NODE, join(root, 'bin/node'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** Runs bin/node without a packaged Node, with a Node of this version in PATH. */
function run(version: string) {
  const script = `#!/bin/sh\nif [ "$1" = --version ]; then echo ${version}; else echo "ran $1"; fi\n`;
  writeFileSync(join(root, 'path/node'), script, { mode: 0o755 });
  return spawnSync(join(root, 'bin/node'), ['a-file'], {
    encoding: 'utf8',
    env: { PATH: `${join(root, 'path')}:/usr/bin:/bin` },
  });
}

test.each(['v24.21.0', 'v24.22.3', 'v24.100.0'])("runs the machine's own Node %s", (version) => {
  expect(run(version)).toMatchObject({ status: 0, stdout: 'ran a-file\n' });
});

test.each(['v24.0.0', 'v24.20.9', 'v22.21.0', 'v26.21.0', 'nonsense'])(
  'rejects %s, which lacks security fixes or is another major version',
  (version) => {
    const { status, stderr } = run(version);
    expect(status).toBe(127);
    expect(stderr).toContain('Node.js 24.21 or a newer 24 is needed');
    expect(stderr).toContain(`found ${version}`);
  },
);
