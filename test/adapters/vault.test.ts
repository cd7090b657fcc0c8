import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { loadMasterKeys, MasterKeyError } from '../../src/adapters/master-key.ts';
import {
  createVault,
  hasHadMasterKey,
  VaultError,
  verifyMasterKey,
} from '../../src/adapters/vault.ts';
import { isId } from '../../src/domain/ids.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../support/postgres/test-database.ts';

const PURPOSE = 'endpoint-credentials';
const SECRET = { password: 'canary-4711', note: 'ü' };

const makeKey = () => randomBytes(32).toString('base64');
const hasHadOne = async () => false;
const given = (setting: string) => loadMasterKeys({ setting, dataDir: null, hasHadOne });

let dataDir: string;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'waybill-vault-'));
});
afterEach(() => rm(dataDir, { recursive: true }));

describe('loadMasterKeys', () => {
  const generated = () => loadMasterKeys({ setting: null, dataDir, hasHadOne });

  it('reads one key or several, and encrypts with the first', async () => {
    const [first, second] = [makeKey(), makeKey()];
    const keys = await given(`${first}, ${second}`);
    expect(keys.current().key.toString('base64')).toBe(first);
    expect(keys.all().map(({ key }) => key.toString('base64'))).toEqual([first, second]);
    expect((await given(second)).current().id).toBe(keys.all()[1]!.id);
  });

  it.each(['', 'short', randomBytes(31).toString('base64'), `${makeKey()},`, `${makeKey()}!`])(
    'rejects %j',
    async (setting) => {
      await expect(given(setting)).rejects.toThrow(MasterKeyError);
    },
  );

  it('never repeats a bad key in its error', async () => {
    const error: Error = await given('canary-4711').catch((thrown) => thrown);
    expect(error.message).toContain('WAYBILL_MASTER_KEY');
    expect(error.message).not.toContain('canary');
  });

  it('requires the setting if there is no data folder', async () => {
    await expect(loadMasterKeys({ setting: null, dataDir: null, hasHadOne })).rejects.toThrow(
      /WAYBILL_MASTER_KEY is required/,
    );
  });

  it('fails in a data folder that the system cannot create', async () => {
    await expect(
      loadMasterKeys({ setting: null, dataDir: '/proc/x', hasHadOne }),
    ).rejects.toMatchObject({
      code: 'ENOENT',
    });
  });

  it('creates one key file with access for its owner alone', async () => {
    const all = await Promise.all(Array.from({ length: 8 }, generated));
    expect(new Set(all.map((keys) => keys.current().id)).size).toBe(1);
    expect((await stat(join(dataDir, 'master.key'))).mode & 0o777).toBe(0o600);
  });

  it('says what to do when the file is missing', async () => {
    const keys = await generated();
    await rm(join(dataDir, 'master.key'));
    await expect(keys.refresh()).rejects.toThrow(/restore it/);
  });

  it('says to restore a damaged file, not to make a key', async () => {
    for (const text of ['AAA\n', '']) {
      await writeFile(join(dataDir, 'master.key'), text);
      await expect(generated()).rejects.toThrow(/restore it from a backup\.$/);
    }
  });
});

describeWithPostgres('vault', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database?.drop());
  beforeEach(() => database.sql`truncate work.vault, work.vault_keys`);

  /** Opens a vault as a process does at its start. */
  async function startVault(options: { setting: string | null; dataDir: string | null }) {
    const keys = await loadMasterKeys({
      ...options,
      hasHadOne: () => hasHadMasterKey(database.sql),
    });
    await verifyMasterKey({ sql: database.sql, keys });
    return createVault({ sql: database.sql, keys });
  }
  const withSetting = (setting: string) => startVault({ setting, dataDir: null });
  const withFile = () => startVault({ setting: null, dataDir });

  it('decrypts what it encrypted', async () => {
    const vault = await withSetting(makeKey());
    const id = await vault.seal(PURPOSE, SECRET);
    expect(isId('vlt', id)).toBe(true);
    expect(await vault.open(id, PURPOSE)).toEqual(SECRET);
  });

  it('makes no new key file in place of one that is missing', async () => {
    await withFile();
    await rm(join(dataDir, 'master.key'));
    await expect(withFile()).rejects.toThrow(/master\.key is missing.* restore it from a backup/);
    await expect(stat(join(dataDir, 'master.key'))).rejects.toThrow('ENOENT');
  });

  it('stores no plain text', async () => {
    const vault = await withSetting(makeKey());
    await vault.seal(PURPOSE, SECRET);
    const [row] = await database.sql`select * from work.vault`;
    const stored = Object.values(row!).map((value) =>
      Buffer.isBuffer(value) ? value.toString('latin1') : String(value),
    );
    expect(stored.join()).not.toContain('canary');
  });

  it('takes part in a transaction', async () => {
    const vault = await withSetting(makeKey());
    const ids: string[] = [];
    const rolledBack = database.sql.begin(async (tx) => {
      ids.push(await vault.seal(PURPOSE, SECRET, { tx }));
      throw new Error('rolled back');
    });
    await expect(rolledBack).rejects.toThrow('rolled back');
    await expect(vault.open(ids[0]!, PURPOSE)).rejects.toThrow(/is not in the vault/);
  });

  it('rejects another purpose', async () => {
    const vault = await withSetting(makeKey());
    const id = await vault.seal(PURPOSE, SECRET);
    await expect(vault.open(id, 'webhook-secret')).rejects.toThrow(VaultError);
    await database.sql`update work.vault set purpose = 'webhook-secret'`;
    await expect(vault.open(id, 'webhook-secret')).rejects.toThrow(VaultError);
  });

  it('rejects a record that replaced another one', async () => {
    const vault = await withSetting(makeKey());
    const [one, other] = [
      await vault.seal(PURPOSE, SECRET),
      await vault.seal(PURPOSE, { password: 'other' }),
    ];
    await database.sql`
      update work.vault v set wrapped_key = o.wrapped_key, ciphertext = o.ciphertext
        from work.vault o where v.id = ${one} and o.id = ${other}`;
    await expect(vault.open(one, PURPOSE)).rejects.toThrow(VaultError);
  });

  it.each(['wrapped_key', 'ciphertext'])('rejects a %s with any bit changed', async (column) => {
    const { sql } = database;
    const vault = await withSetting(makeKey());
    const id = await vault.seal(PURPOSE, SECRET);
    const [row] = await sql`select length(${sql(column)}) as length from work.vault`;
    for (const position of [0, 12, row!.length - 17, row!.length - 1]) {
      const flip = () =>
        sql`
          update work.vault
             set ${sql(column)} =
                 set_byte(${sql(column)}, ${position}, get_byte(${sql(column)}, ${position}) # 1)`;
      await flip();
      const error = await vault.open<Error>(id, PURPOSE).catch((thrown: Error) => thrown);
      expect(error).toBeInstanceOf(VaultError);
      expect(error.message).toContain(id);
      expect(error.message).not.toContain('canary');
      await flip();
    }
    expect(await vault.open(id, PURPOSE)).toEqual(SECRET);
  });

  it('rejects a wrong master key at the start, and says what to do', async () => {
    await withSetting(makeKey());
    await expect(withSetting(makeKey())).rejects.toThrow(MasterKeyError);
    await expect(withSetting(makeKey())).rejects.toThrow(/Restore it/);
  });

  it('lets only one of two different keys be the first', async () => {
    const starts = await Promise.allSettled([withSetting(makeKey()), withSetting(makeKey())]);
    expect(starts.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  });

  it('rotates from one setting to the next, and every record stays readable', async () => {
    const [old, next] = [makeKey(), makeKey()];
    const before = await withSetting(old);
    const ids = [await before.seal(PURPOSE, SECRET), await before.seal('webhook-secret', 'whsec')];

    const during = await withSetting(`${next},${old}`);
    expect(await during.open(ids[0]!, PURPOSE)).toEqual(SECRET);
    expect(await during.rotate()).toEqual({ rewrapped: 2 });
    expect(await during.rotate()).toEqual({ rewrapped: 0 });
    await expect(before.seal(PURPOSE, SECRET)).rejects.toThrow(/was rotated out/);

    const after = await withSetting(next);
    expect(await after.open(ids[0]!, PURPOSE)).toEqual(SECRET);
    expect(await after.open(ids[1]!, 'webhook-secret')).toBe('whsec');
    await expect(withSetting(old)).rejects.toThrow(MasterKeyError);
  });

  it('rotates the generated key while another process uses the vault', async () => {
    const [service, command] = [await withFile(), await withFile()];
    const before = await readFile(join(dataDir, 'master.key'), 'utf8');
    const early = await service.seal(PURPOSE, SECRET);

    const writes = Promise.all(Array.from({ length: 20 }, () => service.seal(PURPOSE, SECRET)));
    const { rewrapped } = await command.rotate();
    const written = await writes;
    expect(rewrapped).toBeGreaterThan(0);

    const after = await readFile(join(dataDir, 'master.key'), 'utf8');
    expect(after.trim().split('\n')).toHaveLength(1);
    expect(after).not.toBe(before);
    for (const vault of [service, command, await withFile()]) {
      for (const id of [early, ...written]) expect(await vault.open(id, PURPOSE)).toEqual(SECRET);
    }
    expect(await service.open(await service.seal(PURPOSE, SECRET), PURPOSE)).toEqual(SECRET);
  });

  it('rotates once when several rotate at once', async () => {
    const vaults = await Promise.all([withFile(), withFile(), withFile()]);
    const id = await vaults[0].seal(PURPOSE, SECRET);
    expect(await Promise.all(vaults.map((vault) => vault.rotate()))).toEqual(
      Array(3).fill({ rewrapped: 1 }),
    );
    for (const vault of vaults) expect(await vault.open(id, PURPOSE)).toEqual(SECRET);
  });

  it('completes a rotation that stopped after the new key was written', async () => {
    const vault = await withFile();
    const id = await vault.seal(PURPOSE, SECRET);
    const file = join(dataDir, 'master.key');
    const [old, next] = [await readFile(file, 'utf8'), makeKey()];
    await writeFile(file, `${next}\n${old}`);
    expect(await (await withFile()).rotate()).toEqual({ rewrapped: 1 });
    expect(await readFile(file, 'utf8')).toBe(`${next}\n`);
    expect(await vault.open(id, PURPOSE)).toEqual(SECRET);
  });

  it('deletes records older than an hour that nothing references', async () => {
    const vault = await withSetting(makeKey());
    const [orphan, named, fresh] = [
      await vault.seal(PURPOSE, 1),
      await vault.seal(PURPOSE, 2),
      await vault.seal(PURPOSE, 3),
    ];
    await database.sql`
      update work.vault set created_at = now() - interval '61 minutes' where id <> ${fresh}`;
    const asked: string[] = [];
    const swept = await vault.sweep(async (ids) => {
      asked.push(...ids);
      return [named];
    });
    expect(swept).toBe(1);
    expect(asked.sort()).toEqual([orphan, named].sort());
    await expect(vault.open(orphan, PURPOSE)).rejects.toThrow(/is not in the vault/);
    expect(await vault.open(named, PURPOSE)).toBe(2);
    expect(await vault.open(fresh, PURPOSE)).toBe(3);
  });
});
