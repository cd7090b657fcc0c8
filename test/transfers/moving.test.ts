import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type SftpServer, startSftpServer } from '../support/file-servers/sftp/server.ts';
import { LONG } from '../support/run/long.ts';
import {
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../support/service/installation.ts';
import { type RunningRoles, startRoles } from '../support/service/roles.ts';
import {
  describeTransfers,
  filesBelow,
  sha256Of,
  storyOf,
  untilCleanedUp,
} from '../support/service/transfers.ts';

const MiB = 1 << 20;
const ONCE = ['created', 'queued: admitted', 'in_progress', 'completed'];

await describeTransfers('files between two SFTP servers', () => {
  let installation: TestInstallation;
  let alpha: SftpServer;
  let beta: SftpServer;
  let roles: RunningRoles;

  beforeAll(async () => {
    [installation, alpha, beta] = await Promise.all([
      openTestInstallation({ WAYBILL_TRANSFER_RETRY_DELAYS: '100ms' }),
      startSftpServer(),
      startSftpServer(),
    ]);
    roles = await startRoles(installation);
    await configureSftp(installation, 'alpha', alpha);
    await configureSftp(installation, 'beta', beta);
    await configureSftp(installation, 'careful', beta, { overwrite: false });
  });

  afterAll(async () => {
    await roles?.stop();
    await Promise.all([installation?.close(), alpha?.stop(), beta?.stop()]);
  });

  const move = async (source: string, destination: string, seconds?: number) => {
    const id = await submit(installation, source, destination);
    return { id, done: await untilStatus(installation, id, ['completed', 'failed'], seconds) };
  };

  // The chunks of the SFTP adapter have 8 MiB.
  test.each([0, 1, 8 * MiB - 1, 8 * MiB, 8 * MiB + 1])(
    '%i bytes arrive unchanged',
    async (size) => {
      const bytes = randomBytes(size);
      writeFileSync(join(alpha.root, `size-${size}`), bytes);
      const { id, done } = await move(`sftp://alpha/size-${size}`, `sftp://beta/sizes/${size}`);
      expect(done).toMatchObject({
        status: 'completed',
        checksum_sha256: await sha256Of(join(alpha.root, `size-${size}`)),
        verification: { size: true, source_unchanged: true },
        facts: { size_bytes: size, transferred_bytes: size, retry_count: 0, error: null },
      });
      expect(readFileSync(join(beta.root, 'sizes', String(size))).equals(bytes)).toBe(true);
      expect(await storyOf(installation, id)).toEqual(ONCE);
    },
  );

  test('24 MiB arrive whole, and their name never shows less', async () => {
    const source = join(alpha.root, 'big');
    const size = 24 * MiB;
    writeFileSync(source, randomBytes(size));
    utimesSync(source, 1_700_000_000, 1_700_000_000);
    const folder = join(beta.root, 'watched');
    await mkdir(folder);
    writeFileSync(join(folder, 'big'), 'the one before');

    const seen = new Set<number>();
    let watching = true;
    const watcher = (async () => {
      for (; watching; await sleep(1))
        for (const name of readdirSync(folder))
          if (name === 'big') seen.add(statSync(join(folder, name)).size);
    })();
    const { done } = await move('sftp://alpha/big', 'sftp://beta/watched/', 60);
    watching = false;
    await watcher;

    expect(done).toMatchObject({
      status: 'completed',
      checksum_sha256: await sha256Of(join(folder, 'big')),
    });
    expect(await sha256Of(source)).toBe(await sha256Of(join(folder, 'big')));
    expect([...seen].sort((a, b) => a - b)).toEqual(['the one before'.length, size]);
    expect(readdirSync(folder)).toEqual(['big']);
    expect(statSync(source)).toMatchObject({ size, mtimeMs: 1_700_000_000_000 });
  }, 90_000);

  test('200 small files all arrive, and no others', LONG, async () => {
    const names = Array.from({ length: 200 }, (_, i) => `small-${i}`);
    const folder = join(alpha.root, 'many');
    await mkdir(folder);
    for (const name of names) writeFileSync(join(folder, name), randomBytes(10 * 1024));
    const ids = await Promise.all(
      names.map((name) => submit(installation, `sftp://alpha/many/${name}`, 'sftp://beta/many/')),
    );
    for (const id of ids)
      expect(await untilStatus(installation, id, ['completed', 'failed'])).toMatchObject({
        status: 'completed',
      });
    expect(readdirSync(join(beta.root, 'many')).sort()).toEqual(names.toSorted());
    for (const name of names) {
      expect(
        readFileSync(join(beta.root, 'many', name)).equals(readFileSync(join(folder, name))),
      ).toBe(true);
    }
  });

  test.each([
    'two words.txt',
    'Übergröße 文件 🚚.csv',
    'cafe\u0301.txt',
    '100%.txt',
    '100%25.txt',
    'a#b?c&d=e+f;g.txt',
    '.hidden',
    `it's "quoted" \`so\`.txt`,
    '$(touch x) *|<>~.txt',
    `${'n'.repeat(240)}.txt`,
    `${'ü'.repeat(120)}.txt`,
  ])('the name %j is kept', async (name) => {
    writeFileSync(join(alpha.root, name), name);
    const { done } = await move(`sftp://alpha/${encodeURIComponent(name)}`, 'sftp://beta/names/');
    expect(done).toMatchObject({ status: 'completed', facts: { file_name: name } });
    expect(readdirSync(join(beta.root, 'names'))).toContain(name);
    expect(readFileSync(join(beta.root, 'names', name), 'utf8')).toBe(name);
  });

  test('missing folders are created, also by concurrent transfers', async () => {
    writeFileSync(join(alpha.root, 'deep'), 'deep');
    const ids = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        submit(installation, 'sftp://alpha/deep', `sftp://beta/a/b/c/d/${i % 2}/e/${i}`),
      ),
    );
    for (const id of ids) {
      expect(await untilStatus(installation, id, ['completed', 'failed'])).toMatchObject({
        status: 'completed',
        facts: { retry_count: 0 },
      });
    }
    expect(readdirSync(join(beta.root, 'a/b/c/d/1/e'))).toHaveLength(10);
  });

  test('the source stays unchanged', async () => {
    const source = join(alpha.root, 'kept');
    writeFileSync(source, 'kept', { mode: 0o440 });
    utimesSync(source, 1_600_000_000, 1_600_000_000);
    await move('sftp://alpha/kept', 'sftp://beta/kept');
    expect(readFileSync(source, 'utf8')).toBe('kept');
    expect(statSync(source)).toMatchObject({ mtimeMs: 1_600_000_000_000 });
    expect(statSync(source).mode & 0o777).toBe(0o440);
  });

  test('an existing file is replaced, or kept if the endpoint does not overwrite', async () => {
    writeFileSync(join(alpha.root, 'new'), 'new');
    writeFileSync(join(beta.root, 'there'), 'old');
    const kept = await move('sftp://alpha/new', 'sftp://careful/there');
    expect(kept.done).toMatchObject({
      status: 'failed',
      facts: {
        error: { code: 'destination_exists', retryable: false, attempts: 1 },
        retry_count: 0,
      },
    });
    expect(readFileSync(join(beta.root, 'there'), 'utf8')).toBe('old');
    expect((await move('sftp://alpha/new', 'sftp://careful/not-there')).done).toMatchObject({
      status: 'completed',
    });

    const replaced = await move('sftp://alpha/new', 'sftp://beta/there');
    expect(replaced.done).toMatchObject({
      status: 'completed',
      verification: { atomic_replace: true },
    });
    expect(readFileSync(join(beta.root, 'there'), 'utf8')).toBe('new');
  });

  test('of many transfers to one new name without overwriting, one succeeds', async () => {
    const ids = await Promise.all(
      Array.from({ length: 10 }, (_, i) => {
        writeFileSync(join(alpha.root, `rival-${i}`), `rival ${i}`);
        return submit(installation, `sftp://alpha/rival-${i}`, 'sftp://careful/prize');
      }),
    );
    const ends = await Promise.all(
      ids.map((id) => untilStatus(installation, id, ['completed', 'failed'])),
    );
    expect(ends.filter(({ status }) => status === 'completed')).toHaveLength(1);
    expect(readFileSync(join(beta.root, 'prize'), 'utf8')).toBe(
      `rival ${ends.findIndex(({ status }) => status === 'completed')}`,
    );
    for (const { status, facts } of ends)
      if (status === 'failed') expect(facts.error).toMatchObject({ code: 'destination_exists' });
  });

  test('only whole files are left behind', async () => {
    await untilCleanedUp(installation);
    expect((await filesBelow(beta.root)).filter((name) => name.endsWith('.part'))).toEqual([]);
  });
});
