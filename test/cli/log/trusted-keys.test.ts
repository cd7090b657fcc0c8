import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { createTestDatabase, describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CLI_TIMEOUT_MS,
  type CliResult,
  createCli,
  settingsFor,
} from '../../support/service/cli.ts';

vi.setConfig({ testTimeout: CLI_TIMEOUT_MS });

describeWithPostgres('waybill audit verify --key', () => {
  it('follows the keys of the log from a key that was kept', async () => {
    const database = await createTestDatabase();
    const cli = createCli(settingsFor(database.url));
    const folder = await mkdtemp(join(tmpdir(), 'waybill-keys-'));
    const [kept, own] = [join(folder, 'keys.txt'), join(folder, 'own.txt')];
    const checkpoints = join(folder, 'checkpoints');
    const run = (...args: string[]) => cli.run(args);
    const verify = (...args: string[]) => run('audit', 'verify', ...args);
    const problems = ({ stdout }: CliResult) => stdout.split('\n').slice(0, -3);
    try {
      expect(await run('migrate')).toMatchObject({ code: 0 });
      await mkdir(checkpoints);
      const keep = async (file: string, ...args: string[]) => {
        const { code, stdout } = await run('log', ...args);
        expect(code).toBe(0);
        await writeFile(file, stdout);
      };
      await keep(kept, 'keys');
      await keep(join(folder, 'rotated.txt'), 'rotate-key');
      // The auditor did not keep the key that signs now. It follows from the one that was kept.
      await keep(join(checkpoints, '1.txt'), 'checkpoint');
      const before = await verify('--checkpoint', checkpoints, '--key', kept);
      expect(before, before.stdout).toMatchObject({ code: 0, stderr: '' });
      expect(await verify('--key', kept)).toMatchObject({ code: 0, stderr: '' });
      // An attacker who cannot read the private key says that it was lost.
      await database.sql`delete from work.vault`;
      await keep(own, 'rotate-key', '--lost');
      await keep(join(checkpoints, '2.txt'), 'checkpoint');
      const forged = await verify('--checkpoint', checkpoints, '--key', kept);
      expect(forged.code).toBe(1);
      expect(problems(forged)).toEqual([
        expect.stringMatching(/2\.txt: the signature of the checkpoint names the key \w{8}, /),
        expect.stringMatching(
          /^log-keys revision 2 .* the key before it did not sign, and that you did /,
        ),
      ]);
      const unproved = await verify();
      expect([unproved.code, unproved.stderr]).toEqual([
        0,
        expect.stringMatching(
          /^Not proved: that the keys of the log are genuine\..*\nThe key before it did not sign \w{8}: /,
        ),
      ]);
      const accepted = await verify('--checkpoint', checkpoints, '--key', kept, '--key', own);
      expect(accepted, accepted.stdout).toMatchObject({ code: 0, stderr: '' });
      const later = await verify('--key', own);
      expect([later.code, later.stderr]).toEqual([
        0,
        expect.stringMatching(
          /^Not proved: keys before the first one that you gave \(\w{8}, \w{8}\)/,
        ),
      ]);
    } finally {
      await rm(folder, { recursive: true });
      await database.drop();
    }
  });
});
