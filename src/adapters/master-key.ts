import { createHash, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { KEY_BYTES } from './cipher.ts';
import { removeAbandoned, replaceFile } from './durable-file.ts';
import { withFileLock } from './file-lock.ts';
import { makeFolder } from './make-folder.ts';

const FILE = 'master.key';
const HOW_TO_MAKE_ONE = 'Make one with: openssl rand -base64 32';
const IF_LOST = 'If the key is lost for good: waybill vault rotate --lost';
const RESTORE = "Stored credentials can't be read without it: restore it from a backup";

/** A key-encryption key. */
export interface MasterKey {
  /**
   * Derived from the key, so that every process uses the same id. Reveals nothing about the key.
   */
  id: string;
  key: Buffer;
}

export interface MasterKeys {
  /** Returns the key that seals. */
  current(): MasterKey;
  /** Returns every key that opens, the current one first. */
  all(): MasterKey[];
  /** Reads the keys again, which another process may have changed. */
  refresh(): Promise<void>;
  /**
   * Creates a new current key if this module manages the keys, runs `rewrap`, and forgets the older
   * keys.
   */
  rotate<T>(rewrap: () => Promise<T>): Promise<T>;
}

/** There is no usable master key. The message says what to do. */
export class MasterKeyError extends Error {
  override readonly name = 'MasterKeyError';
}

/**
 * Loads the keys of the setting `WAYBILL_MASTER_KEY`: base64 of 32 bytes, or several of these
 * separated by commas. The first key seals; all open. Without the setting, loads those of the file
 * `master.key` in `dataDir`, which the first call creates, unless there was one before.
 * Throws MasterKeyError without either.
 */
export async function loadMasterKeys({
  setting,
  dataDir,
  hasHadOne,
}: {
  setting: string | null;
  dataDir: string | null;
  /** Returns whether this installation has had a master key before. */
  hasHadOne(): Promise<boolean>;
}): Promise<MasterKeys> {
  if (setting !== null) return keysOfSetting(setting);
  if (dataDir !== null) return keysOfFile(dataDir, hasHadOne);
  throw new MasterKeyError(
    `WAYBILL_MASTER_KEY is required if DATABASE_URL is set. ${HOW_TO_MAKE_ONE}`,
  );
}

function keysOfSetting(setting: string): MasterKeys {
  const keys = parseKeys(setting.split(','), 'WAYBILL_MASTER_KEY', HOW_TO_MAKE_ONE);
  return {
    current: () => keys[0],
    all: () => keys,
    refresh: async () => {},
    rotate: (rewrap) => rewrap(),
  };
}

async function keysOfFile(dataDir: string, hasHadOne: () => Promise<boolean>): Promise<MasterKeys> {
  await makeFolder(dataDir);
  const file = join(dataDir, FILE);
  const lock = `${file}.lock`;
  await withFileLock(lock, async () => {
    // A new key could open nothing, and would look like the one that is missing.
    if ((await readKeys(file)) === null && !(await hasHadOne())) await writeKeys(file, [newKey()]);
    await removeAbandoned(dataDir, (name) => name === FILE);
  });

  let keys = await requireKeys(file);
  return {
    current: () => keys[0],
    all: () => keys,
    async refresh() {
      keys = await requireKeys(file);
    },
    rotate: (rewrap) =>
      withFileLock(lock, async () => {
        keys = await requireKeys(file);
        // An interrupted rotation leaves several keys. The first of them is the new one.
        if (keys.length === 1) {
          keys = [newKey(), ...keys];
          await writeKeys(file, keys);
        }
        const result = await rewrap();
        keys = [keys[0]];
        await writeKeys(file, keys);
        return result;
      }),
  };
}

type Keys = [MasterKey, ...MasterKey[]];

async function requireKeys(file: string): Promise<Keys> {
  const keys = await readKeys(file);
  if (keys === null)
    throw new MasterKeyError(
      `${file} is missing. ${RESTORE}, or set WAYBILL_MASTER_KEY if it was set before. ${IF_LOST}`,
    );
  return keys;
}

async function readKeys(file: string): Promise<Keys | null> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  return text === null ? null : parseKeys(text.trim().split('\n'), file, `${RESTORE}.`);
}

function writeKeys(file: string, keys: MasterKey[]): Promise<void> {
  return replaceFile(file, keys.map(({ key }) => `${key.toString('base64')}\n`).join(''));
}

function parseKeys(texts: string[], source: string, remedy: string): Keys {
  const [first, ...others] = texts.map((text, index) => {
    const key = Buffer.from(text.trim(), 'base64');
    if (key.length === KEY_BYTES && key.toString('base64') === text.trim()) return masterKey(key);
    throw new MasterKeyError(
      `${source}: key ${index + 1} of ${texts.length} is not the base64 of ${KEY_BYTES} bytes. ` +
        remedy,
    );
  });
  if (first === undefined) throw new MasterKeyError(`${source} contains no key. ${remedy}`);
  return [first, ...others];
}

function newKey(): MasterKey {
  return masterKey(randomBytes(KEY_BYTES));
}

function masterKey(key: Buffer): MasterKey {
  return {
    id: createHash('sha256').update('waybill master key').update(key).digest('hex').slice(0, 16),
    key,
  };
}
