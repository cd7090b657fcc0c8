import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect } from 'vitest';
import type { TestApi } from '../http/api.ts';

const GUIDE = resolve(import.meta.dirname, '../../../docs/clients.md');

interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Returns the program of a language in the section "Complete clients" of the guide. */
function sampleClient(language: string): string {
  const section = readFileSync(GUIDE, 'utf8').split('\n## Complete clients\n')[1] ?? '';
  const [, program] = section.split(`\n\`\`\`${language}\n`);
  if (program === undefined) throw new Error(`The guide has no client in ${language}`);
  return program.split('\n```\n')[0] as string;
}

/**
 * Runs a program of the guide to its end: with a transfer that is cancelled while the program
 * watches it, with the same key again, and with a request that the API rejects.
 */
export async function tryClient(api: TestApi, language: string, file: string, command: string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'waybill-client-'));
  writeFileSync(join(folder, file), sampleClient(language));
  const [program, ...args] = command as [string, ...string[]];
  const run = (...more: string[]) =>
    new Promise<Ended>((ended) => {
      const env = { ...process.env, API_URL: `${api.url}/v1`, API_KEY: api.key };
      const child = execFile(
        program,
        [...args, ...more],
        { cwd: folder, env },
        (_error, stdout, stderr) => ended({ code: child.exitCode, stdout, stderr }),
      );
    });
  try {
    const request = ['s3://archive/a.csv', `s3://archive/${language}/`, `sample-${language}`];
    const watching = run(...request);
    const found = async () => {
      const query = new URLSearchParams({ destination: `s3://archive/${language}/` });
      return (await api.ask('GET', `/v1/transfers?${query}`)).body.data;
    };
    // Compiling C# takes long on a busy machine. Other tests end by their own time-out.
    await expect.poll(found, { timeout: 5 * 60_000 }).toHaveLength(1);
    const [{ id }] = await found();
    expect(await api.ask('DELETE', `/v1/transfers/${id}`)).toMatchObject({ status: 200 });
    const cancelled = { code: 1, stdout: expect.stringMatching(`^${id} cancelled`) };
    expect(await watching).toMatchObject(cancelled);
    expect(await run(...request)).toMatchObject(cancelled);
    expect(await found()).toHaveLength(1);
    const rejected = await run('sftp://nowhere/a', 'sftp://nowhere/b', `other-${language}`);
    expect(rejected.stderr).toContain('endpoint_not_configured: ');
    expect(rejected.code).not.toBe(0);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
