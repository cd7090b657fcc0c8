import { randomBytes } from 'node:crypto';
import { newId } from '../domain/ids.ts';
import { decrypt, encrypt, KEY_BYTES } from './cipher.ts';
import { type MasterKey, MasterKeyError, type MasterKeys } from './master-key.ts';
import type { Queryable, Sql } from './postgres/connect.ts';

/** Purpose of the records that hold the credentials of endpoints. */
export const ENDPOINT_CREDENTIALS = 'endpoint-credentials';
/** Purpose of the records that hold the secrets of webhooks, as `{secret}`. */
export const WEBHOOK_SECRET = 'webhook-secret';
/** Purpose of the records that hold the tokens of a person's console session. */
export const SESSION_TOKENS = 'session-tokens';
/**
 * Purpose of the records that hold the keys that sign checkpoints of the log, as `{private_key}`.
 */
export const LOG_SIGNING_KEY = 'log-signing-key';

const CHECK_TEXT = Buffer.from('waybill');
const SWEEP_PAGE = 1_000;
/** A sweep keeps a record that no event names for this time: its event may follow. */
const UNNAMED_HOURS = 1;

/** A record can't be read or written. The message names the record, never its content. */
export class VaultError extends Error {
  override readonly name = 'VaultError';
}

/** The vault does not have the record: what was sealed is lost. */
export class VaultRecordMissing extends VaultError {}

/** Stores the secrets that events refer to by id and never contain. */
export interface Vault {
  /**
   * Encrypts a JSON value and returns the id of its record, `vlt_` + ULID. With `tx`, it is part of
   * a transaction.
   */
  seal(purpose: string, value: unknown, options?: { tx?: Queryable }): Promise<string>;
  /** Returns the value of a record that was sealed for the same purpose. Throws VaultError. */
  open<T>(recordId: string, purpose: string): Promise<T>;
  /**
   * Wraps every record's data key with the current master key. The other keys are not needed after
   * that.
   */
  rotate(): Promise<{ rewrapped: number }>;
  /**
   * Deletes the records older than an hour that no event names, and returns their number. `named`
   * gets ids and returns those that an event names.
   */
  sweep(named: (recordIds: string[]) => Promise<Iterable<string>>): Promise<number>;
}

interface WrappedKey {
  id: string;
  purpose: string;
  key_id: string;
  wrapped_key: Buffer;
}

interface VaultRecord extends WrappedKey {
  ciphertext: Buffer;
}

/** Creates the vault in Postgres. Call `verifyMasterKey` before. */
export function createVault({ sql, keys }: { sql: Sql; keys: MasterKeys }): Vault {
  async function seal(
    purpose: string,
    value: unknown,
    { tx = sql }: { tx?: Queryable } = {},
  ): Promise<string> {
    const id = newId('vlt');
    const dataKey = randomBytes(KEY_BYTES);
    const ciphertext = encrypt(
      dataKey,
      Buffer.from(JSON.stringify(value)),
      recordContext(id, purpose),
    );
    const store = async ({ id: key_id, key }: MasterKey) => {
      const wrapped = encrypt(key, dataKey, keyContext({ id, purpose, key_id }));
      // Locks the key's row: a rotation either sees this record or has already deleted the key.
      const { count } = await tx`
        insert into work.vault (id, purpose, key_id, wrapped_key, ciphertext)
        select ${id}, ${purpose}, k.id, ${wrapped}, ${ciphertext}
          from work.vault_keys k where k.id = ${key_id} for key share`;
      return count === 1;
    };
    if (await store(keys.current())) return id;
    await keys.refresh();
    if (await store(keys.current())) return id;
    throw new VaultError(
      `The master key ${keys.current().id} was rotated out. ` +
        'Set WAYBILL_MASTER_KEY to its successor and restart.',
    );
  }

  async function open<T>(recordId: string, purpose: string): Promise<T> {
    let opened = await openOnce(recordId, purpose);
    if (opened === null) {
      await keys.refresh();
      opened = await openOnce(recordId, purpose);
    }
    if (opened === null)
      throw new VaultError(
        `${recordId} is sealed with a master key that this process does not have. Add that key to ` +
          'WAYBILL_MASTER_KEY (NEW,OLD), or restore the file master.key of the data folder.',
      );
    return JSON.parse(opened.toString());
  }

  /** Returns null if the master key is unknown. */
  async function openOnce(recordId: string, purpose: string): Promise<Buffer | null> {
    const [record] = await sql<VaultRecord[]>`
      select id, purpose, key_id, wrapped_key, ciphertext from work.vault where id = ${recordId}`;
    if (record === undefined)
      throw new VaultRecordMissing(
        `${recordId} is not in the vault: the database is older than the log, or another one, or ` +
          'the master key was lost. Configure the endpoint again, rotate the secret of the ' +
          'webhook, or replace the key that signs checkpoints with `waybill log rotate-key --lost`.',
      );
    const dataKey = unwrap({ ...record, purpose }, keys.all());
    return (
      dataKey &&
      readable(recordId, () =>
        decrypt(dataKey, record.ciphertext, recordContext(recordId, purpose)),
      )
    );
  }

  function rotate(): Promise<{ rewrapped: number }> {
    return keys.rotate(async () => {
      await verifyMasterKey({ sql, keys });
      const current = keys.current();
      return sql.begin(async (tx) => {
        // From here on, no process can seal with an old key, and those that did have committed.
        await tx`select from work.vault_keys where id <> ${current.id} for update`;
        const records = await tx<WrappedKey[]>`
          select id, purpose, key_id, wrapped_key from work.vault
           where key_id <> ${current.id} for update`;
        for (const record of records) {
          const dataKey = unwrap(record, keys.all());
          if (dataKey === null)
            throw new VaultError(`${record.id} is sealed with an unknown master key.`);
          const wrapped = encrypt(
            current.key,
            dataKey,
            keyContext({ ...record, key_id: current.id }),
          );
          await tx`
            update work.vault set key_id = ${current.id}, wrapped_key = ${wrapped}
             where id = ${record.id}`;
        }
        await tx`delete from work.vault_keys where id <> ${current.id}`;
        return { rewrapped: records.length };
      });
    });
  }

  async function sweep(named: (recordIds: string[]) => Promise<Iterable<string>>): Promise<number> {
    let deleted = 0;
    for (let after = ''; ; ) {
      const page = await sql<{ id: string }[]>`
        select id from work.vault
         where id > ${after} and created_at < now() - ${UNNAMED_HOURS} * interval '1 hour'
         order by id limit ${SWEEP_PAGE}`;
      const last = page.at(-1);
      if (last === undefined) return deleted;
      after = last.id;
      const kept = new Set(await named(page.map(({ id }) => id)));
      const orphans = page.map(({ id }) => id).filter((id) => !kept.has(id));
      deleted += (await sql`delete from work.vault where id = any (${orphans})`).count;
    }
  }

  return { seal, open, rotate, sweep };
}

/** Returns whether this installation has had a master key before. */
export async function hasHadMasterKey(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`
    select exists (select from work.vault_keys) as found`;
  return row?.found === true;
}

/**
 * Checks that the master keys open what is in the vault, and registers the current one. To be
 * called once at start-up. Throws MasterKeyError.
 */
export async function verifyMasterKey({
  sql,
  keys,
}: {
  sql: Sql;
  keys: MasterKeys;
}): Promise<void> {
  const { id, key } = keys.current();
  await sql.begin(async (tx) => {
    await tx`lock table work.vault_keys in share row exclusive mode`;
    const registered = await tx<
      { id: string; check_value: Buffer }[]
    >`select id, check_value from work.vault_keys order by id`;
    for (const { id, check_value } of registered) {
      const known = keys.all().find((candidate) => candidate.id === id);
      if (known === undefined) {
        throw new MasterKeyError(
          `The stored credentials are sealed with the master key ${id}, ` +
            'which is not among the given keys. ' +
            'Restore it: in WAYBILL_MASTER_KEY (NEW,OLD during a rotation) ' +
            'or, if that is not set, as master.key in the data folder.',
        );
      }
      readable(`The check value of the master key ${id}`, () =>
        decrypt(known.key, check_value, id),
      );
    }
    await tx`
      insert into work.vault_keys (id, check_value)
      values (${id}, ${encrypt(key, CHECK_TEXT, id)}) on conflict do nothing`;
  });
}

/**
 * Forgets everything that was sealed, after the master key was lost. Throws MasterKeyError if the
 * given keys open the vault.
 */
export async function forgetLostMasterKey(given: { sql: Sql; keys: MasterKeys }): Promise<void> {
  const isLost = await verifyMasterKey(given).then(
    () => false,
    (error: unknown) => {
      if (error instanceof MasterKeyError || error instanceof VaultError) return true;
      throw error;
    },
  );
  if (!isLost)
    throw new MasterKeyError(
      'The master key is not lost: it opens the vault. To change it: waybill vault rotate',
    );
  await given.sql.begin(async (tx) => {
    await tx`delete from work.vault`;
    await tx`delete from work.vault_keys`;
  });
}

function unwrap(record: WrappedKey, keys: MasterKey[]): Buffer | null {
  const master = keys.find(({ id }) => id === record.key_id);
  return master === undefined
    ? null
    : readable(record.id, () => decrypt(master.key, record.wrapped_key, keyContext(record)));
}

/** Both contexts bind the ciphertext to its row and purpose, so that rows can't be exchanged. */
function recordContext(id: string, purpose: string): string {
  return JSON.stringify(['record', id, purpose]);
}

function keyContext({
  id,
  purpose,
  key_id,
}: {
  id: string;
  purpose: string;
  key_id: string;
}): string {
  return JSON.stringify(['key', id, purpose, key_id]);
}

function readable(name: string, decrypted: () => Buffer): Buffer {
  try {
    return decrypted();
  } catch (error) {
    throw new VaultError(
      `${name} can't be decrypted: ` +
        'it was changed, moved to another row, or sealed for another purpose.',
      { cause: error },
    );
  }
}
