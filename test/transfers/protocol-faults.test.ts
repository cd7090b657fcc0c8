import { createHash, randomBytes } from 'node:crypto';
import { stat, truncate, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Side } from '../../src/adapters/files/port.ts';
import { cancelTransfer } from '../../src/commands/transfers.ts';
import type { ProtocolName } from '../../src/domain/protocols/index.ts';
import {
  ENDPOINT_KINDS,
  ENDPOINT_NAMES,
  type EndpointName,
  type EndpointOptions,
  sha256At,
  whyNotAll,
} from '../support/file-servers/endpoints.ts';
import type { Direction } from '../support/network/tcp-proxy.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { longUnless } from '../support/run/long.ts';
import { CAUSE, configureEndpoint, submit, untilStatus } from '../support/service/installation.ts';
import { retriesOf, until, untilCleanedUp } from '../support/service/transfers.ts';
import {
  bytesBeforeSignIn,
  describeFaulty,
  type Faulty,
  type OneSide,
  oneSide,
  useSurroundings,
} from './one-side.ts';

// Sizes on and off a chunk's boundary, empty files and odd names are in pairs.test.ts. Killed
// movers are in takeover-from-killed.long.test.ts.

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 90_000 });

const KiB = 1 << 10;
const MiB = 1 << 20;
const AS_ROOT = process.getuid?.() === 0;
const SMALL = 5 * KiB;
/** More than one chunk of every protocol. */
const BIG = 9 * MiB;
const LARGE = 12 * MiB;

interface Aim extends OneSide {
  faulty: Faulty;
  /** Direction of its bytes: down from a faulty source, up to a faulty destination. */
  payload: Direction;
  file: string;
  begin(): Promise<string>;
}

interface Cut {
  sides: readonly Side[];
  sizes: readonly number[];
  /** Also tested without overwriting. */
  once?: true;
  /** Starts the move and cuts the connections; returns the transfer's id. */
  strike(aim: Aim): Promise<string>;
  /** Where the attempt ends that is retried; null if it continues without a retry. */
  failsAt: 'connect' | 'sign_in' | 'anywhere' | null;
  /** Protocols in which this cut is impossible, and why. */
  never?: Partial<Record<ProtocolName, string>>;
  /** The endpoints with which `npm test` has it. The long run has all. */
  short: readonly EndpointName[];
}

/** Endpoints that are never full, and why. */
const NO_LIMIT: Partial<Record<EndpointName, string>> = {
  's3-strict': "it has no quotas; S3's quota error is in test/adapters/files/s3/errors.test.ts",
  azure: 'an account has no limit: it grows',
};

const BOTH = ['source', 'destination'] as const;
const NO_SIGN_IN = 'each request is signed for itself';
const NO_PART_FILES = 'it keeps no part under a name';

const CUTS: Record<string, Cut> = {
  'before it is established': {
    short: ['azure'],
    sides: BOTH,
    sizes: [SMALL],
    failsAt: 'connect',
    async strike({ proxy, startAfresh, begin, retries }) {
      await proxy.refuse(true);
      await startAfresh();
      const id = await begin();
      await until('it was tried', async () => (await retries(id)).length > 0);
      await proxy.refuse(false);
      return id;
    },
  },
  'at the sign-in': {
    short: ['ftps'],
    sides: BOTH,
    sizes: [SMALL],
    failsAt: 'sign_in',
    never: { s3: NO_SIGN_IN, azure: NO_SIGN_IN },
    async strike({ faulty, proxy, startAfresh, begin }) {
      const bytes = await bytesBeforeSignIn(faulty);
      await startAfresh();
      const before = proxy.forwarded.up;
      return during(
        proxy.cutWhen(() => proxy.forwarded.up - before > bytes, 'up'),
        begin,
      );
    },
  },
  'when the file is opened': {
    short: ['s3-ceph'],
    sides: BOTH,
    sizes: [SMALL],
    failsAt: 'anywhere',
    async strike({ proxy, create, beginOf, arrives, file, begin }) {
      // Leaves connections that end at their next use.
      await create(`${file}-before`, SMALL);
      await arrives(await beginOf(`${file}-before`), `${file}-before`);
      return during(
        proxy.cutWhen(() => true, 'up'),
        begin,
      );
    },
  },
  'in the middle of the data': {
    short: ['azure'],
    sides: BOTH,
    sizes: [BIG],
    failsAt: null,
    strike({ proxy, payload, begin }) {
      const before = proxy.forwarded[payload];
      return during(
        proxy.cutWhen(() => proxy.forwarded[payload] - before > BIG / 2, payload),
        begin,
      );
    },
  },
  'at the second check of the source': {
    short: [],
    sides: ['source'],
    sizes: [BIG],
    failsAt: null,
    strike({ proxy, begin }) {
      const before = proxy.forwarded.down;
      return during(
        proxy.cutWhen(() => proxy.forwarded.down - before > BIG, 'up'),
        begin,
      );
    },
  },
  'before the commit': {
    short: ['azure'],
    sides: ['destination'],
    sizes: [SMALL, BIG],
    once: true,
    failsAt: null,
    async strike({ proxy, begin, isCommitting }) {
      const id = await begin();
      await proxy.cutWhen(() => isCommitting(id), 'up');
      return id;
    },
  },
  'before the commit, with the last bytes lost': {
    short: ['ftps'],
    sides: ['destination'],
    sizes: [BIG],
    failsAt: null,
    never: { s3: NO_PART_FILES, azure: NO_PART_FILES },
    async strike({ proxy, faulty, file, begin, isCommitting }) {
      const id = await begin();
      await proxy.cutWhen(async () => {
        const [part] = await faulty.names(file);
        if (!part || !(await isCommitting(id))) return false;
        const path = join(faulty.root as string, part);
        if ((await stat(path)).size < BIG) return false;
        await truncate(path, 4 * MiB + 1);
        return true;
      }, 'up');
      return id;
    },
  },
  'after the commit, before its answer': {
    short: ['s3-ceph'],
    sides: ['destination'],
    sizes: [SMALL, BIG],
    once: true,
    failsAt: null,
    strike: ({ proxy, exists, file, begin }) =>
      during(
        proxy.cutWhen(() => exists(file), 'down'),
        begin,
      ),
  },
};

/** Submits a transfer, and returns its id after the planned fault has happened. */
async function during(planned: Promise<void>, begin: () => Promise<string>): Promise<string> {
  const id = await begin();
  await planned;
  return id;
}

const CASES = Object.entries(CUTS).flatMap(([at, cut]) =>
  cut.sides.flatMap((side) =>
    cut.sizes.flatMap((size) =>
      (cut.once ? [true, false] : [true]).map((overwrite) => ({ at, cut, side, size, overwrite })),
    ),
  ),
);

describeWithPostgres('faults at one side of a transfer', () => {
  const surroundings = useSurroundings();

  describeFaulty(surroundings, (faulty) => {
    const { name } = faulty;
    const { protocol } = ENDPOINT_KINDS[name];

    for (const { at, cut, side, size, overwrite } of CASES) {
      const why = cut.never?.[protocol];
      const title =
        `the connection to the ${side} is cut ${at}: ${size} ` +
        `bytes${overwrite ? '' : ', without overwriting'}`;
      test.skipIf(why)(
        why ? `${title} (impossible: ${why})` : title,
        { concurrent: false, ...longUnless(cut.short.includes(name)) },
        async () => {
          const moves = oneSide(surroundings, faulty, side);
          const file = `${name} ${side} cut off ${at} ${size} ${overwrite}`;
          await moves.create(file, size);
          const begin = () => moves.beginOf(file, { overwrite });
          const id = await cut.strike({
            ...moves,
            faulty,
            payload: side === 'source' ? 'down' : 'up',
            file,
            begin,
          });
          await moves.arrives(id, file);
          const retries = await moves.retries(id);
          for (const { code } of retries) expect(code).toBe('connection_failed');
          if (cut.failsAt === null) expect(retries).toEqual([]);
          else if (cut.failsAt !== 'anywhere')
            expect(retries[0]).toMatchObject({ phase: `${side}_${cut.failsAt}` });
        },
      );
    }

    for (const [what, bytes, short] of [
      ['shorter', MiB, ['azure']],
      ['another of the same size', LARGE, ['sftp']],
    ] as const) {
      const options = { concurrent: false, ...longUnless(short.some((kind) => kind === name)) };
      test(`the source becomes ${what} while it is read`, options, async () => {
        const moves = oneSide(surroundings, faulty, 'source');
        const file = `${name} becomes ${what}`;
        await moves.create(file, LARGE);
        // Servers with times in whole seconds could not detect a replacement within the same
        // second.
        if (faulty.root) await utimes(join(faulty.root, file), 0, 1_000_000_000);
        const before = moves.proxy.forwarded.down;
        moves.proxy.throttle(4 * MiB);
        const id = await moves.beginOf(file);
        await until('some of it is read', () => moves.proxy.forwarded.down - before > MiB);
        moves.proxy.stall(true);
        await moves.create(file, bytes);
        moves.proxy.throttle(Number.POSITIVE_INFINITY);
        moves.proxy.stall(false);
        await moves.arrives(id, file);
        expect(await moves.retries(id)).toMatchObject([
          { code: 'source_changed', phase: expect.stringMatching(/^(read|verify)$/) },
        ]);
      });
    }

    test('an existing destination stays if it may not be overwritten', {
      concurrent: false,
      ...longUnless(name === 'ftps' || name === 'azure'),
    }, async () => {
      const moves = oneSide(surroundings, faulty, 'destination');
      for (const size of [SMALL, BIG]) {
        const file = `${name} exists ${size}`;
        await moves.create(file, size);
        await faulty.put(`${file}/${file}`, Buffer.from('before'));
        const id = await moves.beginOf(file, { overwrite: false });
        const { facts } = await untilStatus(
          surroundings.installation,
          id,
          ['failed', 'completed'],
          60,
        );
        expect(facts.error).toMatchObject({
          code: 'destination_exists',
          retryable: false,
          attempts: 1,
        });
        expect(await sha256At(faulty, `${file}/${file}`)).toBe(
          createHash('sha256').update('before').digest('hex'),
        );
        await untilCleanedUp(surroundings.installation, id);
        expect(await faulty.names(file)).toEqual([`${file}/${file}`]);
      }
    });

    test('the clean-up of a transfer meets the next transfer to the same name', {
      concurrent: false,
      ...longUnless(name === 'sftp'),
    }, async () => {
      const moves = oneSide(surroundings, faulty, 'destination');
      const file = `${name} cleaned up`;
      await moves.create(file, LARGE);
      const { proxy } = moves;
      const upload = async () => {
        const before = proxy.forwarded.up;
        const id = await moves.beginOf(file);
        await until('some of it is written', () => proxy.forwarded.up - before > LARGE / 2);
        return id;
      };
      proxy.throttle(4 * MiB);
      const first = await upload();
      await proxy.refuse(true);
      proxy.cut();
      await until('it was tried again', async () => (await moves.retries(first)).length > 0);
      await until('it is cancelled', () =>
        cancelTransfer(surroundings.installation.commands, first, CAUSE).then(
          () => true,
          () => false,
        ),
      );
      // The removal fails there, if there is anything to remove.
      const untried = () =>
        surroundings.installation
          .sql`select from work.cleanups where transfer_id = ${first} and tries = 0`;
      await until('its clean-up was tried', async () => (await untried()).length === 0);
      await proxy.refuse(false);
      const second = await upload();
      await surroundings.installation
        .sql`update work.cleanups set due_at = now() where transfer_id = ${first}`;
      await untilCleanedUp(surroundings.installation, first);
      proxy.throttle(Number.POSITIVE_INFINITY);
      await moves.arrives(second, file);
      expect(await moves.retries(second)).toEqual([]);
    });
  });

  const refusing = async (name: EndpointName, options: EndpointOptions) => {
    const endpoint = await ENDPOINT_KINDS[name].start(options);
    onTestFinished(endpoint.stop);
    await configureEndpoint(surroundings.installation, {
      ...endpoint.request,
      name: `${name}-refusing`,
    });
    return endpoint;
  };

  for (const name of ENDPOINT_NAMES) {
    const reason = whyNotAll([name]);
    const { protocol } = ENDPOINT_KINDS[name];

    const readOnly = `a read-only destination fails the transfer: ${name}`;
    const readOnlyOptions = longUnless(name === 'ftps');
    test.skipIf(reason)(
      reason ? `${readOnly} (skipped: ${reason})` : readOnly,
      readOnlyOptions,
      async () => {
        const endpoint = await refusing(name, { readOnly: true });
        for (const size of [SMALL, BIG]) {
          const file = `${name} read-only ${size}`;
          await surroundings.other.put(file, randomBytes(size));
          const id = await submit(
            surroundings.installation,
            `s3://other/${encodeURI(file)}`,
            `${protocol}://${name}-refusing/folder/`,
          );
          const { status, facts } = await untilStatus(
            surroundings.installation,
            id,
            ['failed', 'completed'],
            60,
          );
          expect(status).toBe('failed');
          expect(facts.error).toMatchObject({
            code: 'permission_denied',
            retryable: false,
            attempts: 1,
          });
          expect(facts.error?.phase).toMatch(/^(destination_open|write|commit)$/);
          await untilCleanedUp(surroundings.installation, id);
        }
        expect(await endpoint.names('folder')).toEqual([]);
      },
    );

    const full = `a full destination gets the file once it has room: ${name}`;
    const why =
      reason ??
      NO_LIMIT[name] ??
      (protocol !== 's3' && !AS_ROOT ? 'only root can mount a small disk' : null);
    const fullOptions = longUnless(name === 's3-ceph');
    test.skipIf(why)(why ? `${full} (skipped: ${why})` : full, fullOptions, async () => {
      await refusing(name, { room: 16 * MiB });
      const at = (file: string) => `${protocol}://${name}-refusing/${file}`;
      const move = (from: string, to: string) => submit(surroundings.installation, from, to);
      const files = {
        filler: randomBytes(12 * MiB),
        waiting: randomBytes(BIG),
        empty: Buffer.alloc(0),
      };
      for (const [file, content] of Object.entries(files))
        await surroundings.other.put(`${name}/${file}`, content);
      const source = (file: keyof typeof files) => `s3://other/${name}/${file}`;
      expect(
        await untilStatus(
          surroundings.installation,
          await move(source('filler'), at('filler')),
          ['completed', 'failed'],
          60,
        ),
      ).toMatchObject({
        status: 'completed',
      });
      const id = await move(source('waiting'), at('waiting'));
      const [refused] = await until('it was refused', async () => {
        const retries = await retriesOf(surroundings.installation, id);
        return retries.length > 0 ? retries : null;
      });
      expect(refused).toMatchObject({ code: 'disk_full', retryable: true });
      await untilStatus(
        surroundings.installation,
        await move(source('empty'), at('filler')),
        ['completed', 'failed'],
        60,
      );
      const sha256 = createHash('sha256').update(files.waiting).digest('hex');
      expect(
        await untilStatus(surroundings.installation, id, ['completed', 'failed'], 60),
      ).toMatchObject({
        status: 'completed',
        checksum_sha256: sha256,
      });
      await untilCleanedUp(surroundings.installation, id);
      const back = await move(at('waiting'), `s3://other/${name}/back`);
      expect(
        await untilStatus(surroundings.installation, back, ['completed', 'failed'], 60),
      ).toMatchObject({
        status: 'completed',
        checksum_sha256: sha256,
      });
    });
  }
});
