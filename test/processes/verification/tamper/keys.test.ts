import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
} from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { LOG_SIGNING_KEY } from '../../../../src/adapters/vault.ts';
import {
  ensureSigningKey,
  loadSigningKey,
  rotateSigningKey,
} from '../../../../src/commands/log.ts';
import type { StoredEvent } from '../../../../src/domain/events/event.ts';
import { eventHash } from '../../../../src/domain/events/event-hash.ts';
import { CHECKPOINTS, SIGNING_KEYS } from '../../../../src/domain/events/streams.ts';
import { newId } from '../../../../src/domain/ids.ts';
import { checkpointText, originOf } from '../../../../src/domain/proof/checkpoint.ts';
import { createFrontier } from '../../../../src/domain/proof/frontier.ts';
import { leafHash } from '../../../../src/domain/proof/hash.ts';
import { statementText } from '../../../../src/domain/proof/key-statement.ts';
import { leafOf } from '../../../../src/domain/proof/leaf.ts';
import { keyIdOf, signNote } from '../../../../src/domain/proof/note.ts';
import type { SigningKey, SigningKeyRotated } from '../../../../src/domain/proof/signing-key.ts';
import {
  type KeptCheckpoint,
  readCheckpoint,
} from '../../../../src/processes/verification/kept-checkpoints.ts';
import {
  type VerificationState,
  verifyLog,
} from '../../../../src/processes/verification/verify-log.ts';
import { listSigningKeys, signingKeysOfLog } from '../../../../src/projections/proof/queries.ts';
import { readLog } from '../../../../src/projections/read-log.ts';
import { describeWithPostgres } from '../../../support/postgres/test-database.ts';
import { CAUSE } from '../../../support/service/installation.ts';
import { openEmbedded, openEventStoreDb, type Tampered } from './engines.ts';

const ENGINES = { embedded: openEmbedded, eventstoredb: openEventStoreDb };
const SINCE = '2100-01-01T00:00:00.000Z';

type Rotated = StoredEvent & { data: SigningKeyRotated };

describeWithPostgres('a key that was forged', () => {
  describe.each(Object.keys(ENGINES) as (keyof typeof ENGINES)[])('%s', (engine) => {
    let tampered: Tampered;
    let original: StoredEvent[];
    const states: VerificationState[] = [];
    let last: Rotated;
    /** Of a key that the second rotation replaces. */
    let stolen: KeyObject;

    beforeAll(async () => {
      tampered = await ENGINES[engine]();
      const { installation } = tampered;
      await ensureSigningKey(installation, CAUSE);
      await rotateSigningKey(installation, CAUSE, { lost: false });
      const { key_record } = (await loadSigningKey(installation.store)) as SigningKey;
      const sealed = await installation.vault.open<{ private_key: string }>(
        key_record,
        LOG_SIGNING_KEY,
      );
      stolen = createPrivateKey(sealed.private_key);
      await installation.sql`delete from work.vault`;
      await rotateSigningKey(installation, CAUSE, { lost: true });
      await rotateSigningKey(installation, CAUSE, { lost: false });
      for (const projection of ['transfers', 'proof'] as const)
        await installation.commands.catchUp(projection);
      original = [];
      for await (const { events } of readLog(installation.store, { from: null }))
        original.push(...events);
      last = original.findLast(({ stream }) => stream === SIGNING_KEYS) as Rotated;
    });
    afterAll(() => tampered?.close());

    /** Returns a rotation to a key of the attacker, signed by that key and `others`. */
    function rotation(others: KeyObject[] = []): Rotated {
      const { privateKey, publicKey } = generateKeyPairSync('ed25519');
      const origin = originOf(tampered.installation.logId);
      const text = statementText(origin, publicKey, SINCE);
      const position = (original.at(-1) as StoredEvent).position + 1n;
      return {
        ...structuredClone(last),
        ...{ id: newId('evt'), revision: last.revision + 1, position },
        metadata: { ...last.metadata, prev_hash: eventHash(last) },
        data: {
          ...last.data,
          key_id: keyIdOf(origin, publicKey),
          public_key: publicKey.export({ format: 'pem', type: 'spki' }) as string,
          since: SINCE,
          statement: signNote(text, origin, [privateKey, ...others]),
          previous_key_id: last.data.key_id,
          signed_by_previous: true,
        },
      };
    }

    /** Returns what `audit verify` says of the key, and how its last key is shown. */
    async function verify(
      forged: StoredEvent | null,
      checkpoints: KeptCheckpoint[] = [],
      resume: VerificationState | null = null,
      keys: KeyObject[] = [],
      log = original,
    ): Promise<[string[], boolean | null]> {
      const events = forged === null ? log : [...log, forged];
      await tampered.replaceLog(events, (events.at(-1) as StoredEvent).position);
      const store = tampered.openStore();
      onTestFinished(() => store.close());
      const { patient, logId } = tampered.installation;
      const problems: string[] = [];
      await verifyLog(
        { store, sql: patient, logId, comparesApi: true, comparesTree: true },
        {
          ...{ checkpoints, resume, keys },
          batchSize: 1,
          async report({ event_id, problem }) {
            if (log === original) expect([forged?.id, null]).toContain(event_id);
            problems.push(problem);
          },
          onProgress: () => undefined,
          save: async (state) => void states.push(state()),
        },
      );
      const shown = (await signingKeysOfLog(store, logId)).at(-1);
      return [problems, shown?.signed_by_previous ?? null];
    }

    /** Returns a checkpoint over the first events that the stolen key signs. */
    function signedByStolen(size: number, keys: KeyObject[]): KeptCheckpoint {
      const tree = createFrontier();
      for (const event of original.slice(0, size)) tree.append(leafHash(leafOf(event)));
      const origin = originOf(tampered.installation.logId);
      const text = checkpointText({ origin, size, root: tree.root() });
      return readCheckpoint(
        `${size}.txt`,
        signNote(text, origin, [stolen]),
        keys,
        tampered.installation.logId,
      ) as KeptCheckpoint;
    }

    it('signs no checkpoint after it was replaced', async () => {
      const rotations = original.flatMap(({ type }, i) => (type === 'log.key_rotated' ? [i] : []));
      const replaced = rotations[1] as number;
      for (const keys of [[], [createPublicKey(stolen)]]) {
        const inTime = signedByStolen(replaced, keys);
        expect(await verify(null, [inTime])).toEqual([[], true]);
        const late = signedByStolen(replaced + 1, keys);
        const problem = expect.stringMatching(
          `^${replaced + 1}.txt covers ${replaced + 1} events, and the key \\w{8} signed it, ` +
            `which event ${replaced + 1} of the log replaced$`,
        );
        states.length = 0;
        expect(await verify(null, [inTime, late])).toEqual([[problem], true]);
        const resume = states[replaced] as VerificationState;
        expect(await verify(null, [inTime, late], resume)).toEqual([[problem], true]);
      }
    });

    /** Returns the keys of the log, oldest first. The third replaced one that was lost. */
    const publicKeys = () =>
      original
        .filter(({ stream }) => stream === SIGNING_KEYS)
        .map(({ data }) => createPublicKey((data as SigningKey).public_key));
    const UNSIGNED = expect.stringMatching(/^it names a key that the key before it did not sign, /);
    const FOLLOWS_NONE = expect.stringMatching(/^it names a key that follows from none that you g/);

    it('is found from any key that the reader gives', async () => {
      const [first, second, afterLoss, newest] = publicKeys() as [
        KeyObject,
        KeyObject,
        KeyObject,
        KeyObject,
      ];
      const from = async (keys: KeyObject[], log: StoredEvent[] = [...original]) =>
        (await verify(null, [], null, keys, log))[0];
      for (const keys of [[first], [second], [second, first]])
        expect(await from(keys)).toEqual([UNSIGNED, FOLLOWS_NONE]);
      for (const keys of [[first, afterLoss], [afterLoss], [newest], publicKeys()])
        expect(await from(keys)).toEqual([]);
      expect(await from([first, newest])).toEqual([UNSIGNED]);
      // The attacker says that the newest key was lost, and rotates once more.
      const lost = rotation();
      lost.data.signed_by_previous = false;
      expect(await from([], [...original, lost])).toEqual([]);
      expect(await from([newest], [...original, lost])).toEqual([UNSIGNED]);
      expect(
        await from([newest, createPublicKey(lost.data.public_key)], [...original, lost]),
      ).toEqual([]);
      states.length = 0;
      await from([first]);
      const before = states.findLast(({ keys }) => keys.length === 2) as VerificationState;
      expect((await verify(null, [], before, [first], [...original]))[0]).toEqual([
        UNSIGNED,
        FOLLOWS_NONE,
      ]);
    });

    it('is found if it stands in place of all keys, or if a key was removed', async () => {
      const stranger = generateKeyPairSync('ed25519').publicKey;
      const absent = expect.stringMatching(/^it does not have the key \w{8} that you gave\. /);
      const strange = await verify(null, [], null, [stranger], [...original]);
      expect(strange[0]).toEqual([absent]);
      const [, second, afterLoss] = publicKeys() as KeyObject[];
      const cut = original.filter(
        ({ stream, revision }) => stream !== SIGNING_KEYS || revision < 2,
      );
      const [problems] = await verify(null, [], null, [second, afterLoss] as KeyObject[], cut);
      expect(problems).toContainEqual(absent);
    });

    it('signs no checkpoint in the log', async () => {
      const { logId } = tampered.installation;
      const origin = originOf(logId);
      const end = original.at(-1) as StoredEvent;
      const sign = (privateKey: KeyObject, size: number, changes = {}): StoredEvent => {
        const tree = createFrontier();
        for (const event of original.slice(0, size)) tree.append(leafHash(leafOf(event)));
        const text = checkpointText({ origin, size, root: tree.root() });
        return {
          ...{ id: newId('evt'), type: 'log.checkpoint_signed', schema_version: 1 },
          ...{ stream: CHECKPOINTS, revision: 0, position: end.position + 1n },
          metadata: { ...end.metadata, prev_hash: null },
          data: {
            ...{ size, root_hash: Buffer.from(tree.root()).toString('hex') },
            key_id: keyIdOf(origin, createPublicKey(privateKey)),
            ...{ note: signNote(text, origin, [privateKey]), signed_at: SINCE },
            ...changes,
          },
        };
      };
      const rotations = original.flatMap(({ type }, i) => (type === 'log.key_rotated' ? [i] : []));
      const [created, replaced] = rotations as [number, number];
      const other = generateKeyPairSync('ed25519').privateKey;
      const ofKey = keyIdOf(origin, createPublicKey(stolen));
      const said = async (event: StoredEvent) => (await verify(event))[0];
      // A signer that read its key just before the rotation appends after it.
      expect(await said(sign(stolen, replaced))).toEqual([]);
      // A signer reads the tree before its key.
      expect(await said(sign(stolen, created - 1))).toEqual([]);
      expect(await said(sign(stolen, replaced + 1))).toEqual([
        expect.stringMatching(
          `^this checkpoint covers ${replaced + 1} events, and the key ${ofKey} signed it, which ` +
            `event ${replaced + 1} of the log replaced\\. Further`,
        ),
      ]);
      const NO_KEY = /^no key that the log names before this checkpoint signed it as \w{8}\. /;
      expect(await said(sign(other, 1))).toEqual([expect.stringMatching(NO_KEY)]);
      expect(await said(sign(other, 1, { key_id: ofKey }))).toEqual([
        expect.stringMatching(NO_KEY),
      ]);
      for (const changes of [{ size: 2 }, { root_hash: '00'.repeat(32) }, { note: 7 }])
        expect(await said(sign(stolen, 1, changes))).toEqual([
          expect.stringMatching(/^the note of this checkpoint says something else than its event/),
        ]);
      const early = sign(stolen, 1);
      const first = original.findIndex(({ stream }) => stream === SIGNING_KEYS);
      const log = [...original.slice(0, first), early, ...original.slice(first)];
      const [problems] = await verify(
        null,
        [],
        null,
        [],
        log.map((event, i) => ({ ...event, position: original[0]!.position + BigInt(i) })),
      );
      expect(problems).toContainEqual(expect.stringMatching(NO_KEY));
    });

    const FALSE = 'it says that the key before it signed its statement, which is false';

    it('is not the key of a rotation, nor that after a lost key', async () => {
      expect(await verify(null)).toEqual([[], true]);
      const { sql, logId } = tampered.installation;
      const store = tampered.openStore();
      onTestFinished(() => store.close());
      const expected = [null, true, false, true];
      const shown = [await listSigningKeys(sql, logId), await signingKeysOfLog(store, logId)];
      for (const keys of shown) expect(keys.map((key) => key.signed_by_previous)).toEqual(expected);
    });

    it('shows as not signed by the key before it', async () => {
      expect(await verify(rotation())).toEqual([[FALSE], false]);
    });

    it('shows with an older signature under its statement', async () => {
      const forged = rotation();
      forged.data.statement += `${last.data.statement.split('\n').at(-2)}\n`;
      expect(await verify(forged)).toEqual([[FALSE], false]);
    });

    it('shows with the statement of another key', async () => {
      const forged = rotation();
      forged.data.statement = last.data.statement;
      const problem = 'it names a key, and its statement names another key or another time';
      expect(await verify(forged)).toEqual([[problem], false]);
    });

    it('shows with a statement that its key did not sign', async () => {
      const forged = rotation();
      const { statement } = rotation().data;
      const [text] = forged.data.statement.split('\n\n');
      forged.data.statement = `${text}\n\n${statement.split('\n\n')[1]}`;
      const problem = 'it names a key, and its key did not sign its statement';
      expect(await verify(forged)).toEqual([[problem], false]);
    });

    it('shows without a public key', async () => {
      const forged = rotation();
      forged.data.public_key = 'none';
      const problem = 'it names a key, and its public key is no Ed25519 key';
      expect(await verify(forged)).toEqual([[problem], false]);
    });

    it('shows as a first key that follows others', async () => {
      const forged = { ...rotation(), type: 'log.key_created' };
      expect(await verify(forged)).toEqual([['it is not the first key of the log'], false]);
    });

    it('shows in the place of another key than the last', async () => {
      const forged = rotation();
      forged.data.previous_key_id = '00000000';
      const problem = 'it does not replace the key before it';
      expect(await verify(forged)).toEqual([[problem], false]);
    });

    it('shows in the table of the API', async () => {
      const { sql, logId } = tampered.installation;
      const forged = rotation().data;
      await sql`
        insert into read.proof_keys
        select revision + 1, position + 1, ${forged.key_id}, ${forged.public_key}, key_record,
               ${SINCE}, ${forged.statement}, true
          from read.proof_keys order by revision desc limit 1`;
      expect((await listSigningKeys(sql, logId)).at(-1)).toMatchObject({
        key_id: forged.key_id,
        signed_by_previous: false,
      });
    });
  });
});
