import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { changeLog } from '../support/event-store/replace-log.ts';
import { createTestDatabase, describeWithPostgres } from '../support/postgres/test-database.ts';
import { CLI_TIMEOUT_MS, createCli, environmentOf, settingsFor } from '../support/service/cli.ts';

const ROOT = join(import.meta.dirname, '..', '..');

describeWithPostgres('verify.sh of docs/operators.md', () => {
  test('prints nothing for a sound log, else the output and the exit code', {
    timeout: 2 * CLI_TIMEOUT_MS,
  }, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'waybill-verify-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());
    const settings = settingsFor(database.url);
    const cli = createCli(settings);
    await cli.run(['keys', 'create', '--name', 'first', '--scopes', 'admin']);
    await writeFile(join(folder, 'keys.txt'), (await cli.run(['log', 'keys'])).stdout);
    await writeFile(join(folder, '1.txt'), (await cli.run(['log', 'checkpoint'])).stdout);

    const guide = await readFile(join(ROOT, 'docs', 'operators.md'), 'utf8');
    const [, example = ''] = /```sh\n(#!\/bin\/sh\n.*?)```/s.exec(guide) ?? [];
    expect(example).toContain('/opt/waybill');
    const script = (kept: string) =>
      example.replace('/opt/waybill', ROOT).replaceAll('/mnt/audit', kept);
    const verify = (kept: string) =>
      promisify(execFile)('sh', ['-c', script(kept)], { env: environmentOf(settings) }).then(
        ({ stdout }) => [0, stdout],
        (error: { code: number; stdout: string }) => [error.code, error.stdout],
      );

    expect(await verify(folder)).toEqual([0, '']);
    expect(await verify('/no/such/folder')).toEqual([
      2,
      'waybill audit verify ended with 2\nwaybill: /no/such/folder/keys.txt does not exist\n',
    ]);
    const change = `set data = replace(data, 'first', 'other') where type = 'key.created'`;
    await changeLog(database.sql, (tx) => tx.unsafe(`update log.events ${change}`));
    const [code, said] = await verify(folder);
    expect(code).toBe(1);
    expect(said).toMatch(
      /^waybill audit verify ended with 1\n(.*\n)*4 events in 4 streams: \d faults/,
    );
  });
});
