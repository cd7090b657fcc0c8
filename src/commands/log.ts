import { createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import type { EventStore } from '../adapters/event-store/port.ts';
import { LOG_SIGNING_KEY, type Vault, VaultError } from '../adapters/vault.ts';
import { DomainError } from '../domain/errors.ts';
import type { NewEvent } from '../domain/events/event.ts';
import { CHECKPOINTS, SIGNING_KEYS } from '../domain/events/streams.ts';
import { checkpointText, originOf, type TreeHead } from '../domain/proof/checkpoint.ts';
import { statementText } from '../domain/proof/key-statement.ts';
import { keyIdOf, readPrivateKey, signNote } from '../domain/proof/note.ts';
import { type CheckpointSigned, checkpointDecider } from '../domain/proof/signed-checkpoint.ts';
import {
  type SigningKey,
  type SigningKeyState,
  signingKeyDecider,
} from '../domain/proof/signing-key.ts';
import { type Cause, handle, load } from './handle.ts';

export interface LogDeps {
  store: EventStore;
  vault: Vault;
  logId: string;
}

/** What the vault holds of a signing key. */
interface PrivateKey {
  private_key: string;
}

/** Returns the key that signs now; null before the first. Reads it from the log. */
export async function loadSigningKey(store: EventStore): Promise<SigningKey | null> {
  const { state } = await load(store, signingKeyDecider, SIGNING_KEYS);
  return keyOf(state);
}

/** Returns the key that signs. The first call for a log creates it. */
export async function ensureSigningKey(
  { store, vault, logId }: LogDeps,
  cause: Cause,
): Promise<SigningKey> {
  const known = await loadSigningKey(store);
  if (known !== null) return known;
  const data = await newKey(vault, logId, []);
  const { state } = await handle(
    store,
    signingKeyDecider,
    SIGNING_KEYS,
    { type: 'create', data },
    cause,
  );
  return keyOf(state) as SigningKey;
}

/**
 * Replaces the key that signs. The old key signs the statement of the new one. With `lost`, a key
 * that cannot be read need not sign: auditors then decide whether they trust the new key. Throws
 * `unavailable` if another command replaced the key meanwhile, and VaultError if the old key cannot
 * be read.
 */
export async function rotateSigningKey(
  deps: LogDeps,
  cause: Cause,
  { lost }: { lost: boolean },
): Promise<SigningKey> {
  const { store, vault, logId } = deps;
  const old = await ensureSigningKey(deps, cause);
  const oldKey = await readKey(vault, old).catch((error: unknown) => {
    if (lost && error instanceof VaultError) return null;
    throw error;
  });
  const data = await newKey(vault, logId, oldKey ? [oldKey] : []);
  const previous = { previous_key_id: old.key_id, signed_by_previous: oldKey !== null };
  const { state } = await handle(
    store,
    signingKeyDecider,
    SIGNING_KEYS,
    { type: 'rotate', data: { ...data, ...previous } },
    cause,
  );
  const key = keyOf(state) as SigningKey;
  if (key.key_id !== data.key_id)
    throw new DomainError('unavailable', 'Another command rotated the key at the same time');
  return key;
}

/** The last checkpoint in the log, where the next one is appended. */
export interface LastCheckpoint {
  data: CheckpointSigned;
  revision: number;
  position: bigint;
  event: NewEvent;
}

/**
 * Signs a head of the tree and appends it to the log. The caller has shown that the tree extends
 * `last`. Returns null if another process was first.
 */
export async function signCheckpoint(
  deps: LogDeps,
  { size, root }: Omit<TreeHead, 'origin'>,
  last: LastCheckpoint | null,
  cause: Cause,
): Promise<CheckpointSigned | null> {
  const { store, vault, logId } = deps;
  const key = await ensureSigningKey(deps, cause);
  const origin = originOf(logId);
  const data: CheckpointSigned = {
    size,
    root_hash: Buffer.from(root).toString('hex'),
    key_id: key.key_id,
    note: signNote(checkpointText({ origin, size, root }), origin, [await readKey(vault, key)]),
    signed_at: new Date().toISOString(),
  };
  const known = last
    ? {
        state: { status: 'signed' as const, ...last.data },
        revision: last.revision,
        position: last.position,
        last: last.event,
      }
    : { state: checkpointDecider.initialState(), revision: -1, position: null, last: null };
  const { events } = await handle(
    store,
    checkpointDecider,
    CHECKPOINTS,
    { type: 'sign', data, extends: last?.data.size ?? null },
    cause,
    { known },
  );
  return events.length > 0 ? data : null;
}

async function newKey(vault: Vault, logId: string, otherSigners: KeyObject[]): Promise<SigningKey> {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const sealed: PrivateKey = {
    private_key: privateKey.export({ format: 'pem', type: 'pkcs8' }) as string,
  };
  const origin = originOf(logId);
  const since = new Date().toISOString();
  return {
    key_id: keyIdOf(origin, publicKey),
    public_key: publicKey.export({ format: 'pem', type: 'spki' }) as string,
    key_record: await vault.seal(LOG_SIGNING_KEY, sealed),
    since,
    statement: signNote(statementText(origin, publicKey, since), origin, [
      privateKey,
      ...otherSigners,
    ]),
  };
}

async function readKey(vault: Vault, key: SigningKey): Promise<KeyObject> {
  const { private_key } = await vault.open<PrivateKey>(key.key_record, LOG_SIGNING_KEY);
  const privateKey = readPrivateKey(private_key);
  const publicKey = createPublicKey(private_key).export({ format: 'pem', type: 'spki' });
  if (publicKey !== key.public_key)
    throw new VaultError(`${key.key_record} does not hold the private key of ${key.key_id}.`);
  return privateKey;
}

function keyOf(state: SigningKeyState): SigningKey | null {
  if (state.status === 'none') return null;
  const { status: _, ...key } = state;
  return key;
}
