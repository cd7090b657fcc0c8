import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { openFileEndpoint } from '../../src/adapters/files/open.ts';
import type { Side } from '../../src/adapters/files/port.ts';
import { credentialsOf, definitionOf } from '../../src/contract/endpoints/definition.ts';
import { endpointRequest } from '../../src/contract/endpoints/requests.ts';
import type { TransferError } from '../../src/domain/transfers/errors.ts';
import { type ProxiedEndpoint, startBehindProxy } from '../support/file-servers/behind-proxy.ts';
import {
  ENDPOINT_KINDS,
  ENDPOINT_NAMES,
  type EndpointName,
  sha256At,
  type TestEndpoint,
  whyNotAll,
} from '../support/file-servers/endpoints.ts';
import type { TcpProxy } from '../support/network/tcp-proxy.ts';
import {
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../support/service/installation.ts';
import { type RunningRoles, startRoles } from '../support/service/roles.ts';
import { retriesOf, until, untilCleanedUp } from '../support/service/transfers.ts';

/**
 * A sound endpoint, configured as `other`, and everything else, so that only the faulty side can
 * fail.
 */
export interface Surroundings {
  installation: TestInstallation;
  other: TestEndpoint;
}

/**
 * The faulty endpoint: behind a proxy, configured under the name of its kind, and with `-once` if
 * it may not overwrite.
 */
export interface Faulty extends ProxiedEndpoint {
  name: EndpointName;
}

/**
 * Starts the surroundings for the tests of a block, with all roles, and stops them afterwards.
 * Failures are retried at once.
 */
export function useSurroundings(): Surroundings {
  const surroundings = {} as Surroundings;
  let roles: RunningRoles;

  beforeAll(async () => {
    const [installation, other] = await Promise.all([
      openTestInstallation({ WAYBILL_TRANSFER_RETRY_DELAYS: Array(100).fill('100ms').join(',') }),
      ENDPOINT_KINDS['s3-strict'].start(),
    ]);
    Object.assign(surroundings, { installation, other });
    roles = await startRoles(installation);
    await configureEndpoint(installation, { ...other.request, name: 'other' });
  });
  afterAll(async () => {
    await roles?.stop();
    await Promise.all([surroundings.installation?.close(), surroundings.other?.stop()]);
  });
  return surroundings;
}

/**
 * Describes each kind of endpoint, concurrently. A kind whose server cannot run is skipped by name.
 * The tests of a kind share a proxy.
 */
export function describeFaulty(surroundings: Surroundings, tests: (faulty: Faulty) => void): void {
  for (const name of ENDPOINT_NAMES) {
    const reason = whyNotAll([name]);
    describe(reason === null ? name : `${name} (skipped: ${reason})`, {
      concurrent: true,
      skip: reason !== null,
    }, () => {
      const faulty = { name } as Faulty;
      beforeAll(async () => {
        Object.assign(faulty, await startFaulty(surroundings, name));
      });
      afterAll(() => faulty.stop?.());
      tests(faulty);
    });
  }
}

async function startFaulty({ installation }: Surroundings, name: EndpointName): Promise<Faulty> {
  const endpoint = await startBehindProxy(name);
  await configureEndpoint(installation, { ...endpoint.request, name });
  await configureEndpoint(installation, {
    ...endpoint.request,
    name: `${name}-once`,
    overwrite: false,
  });
  return { ...endpoint, name };
}

/** Transfers whose source or destination is at a faulty endpoint. The other side is sound. */
export interface OneSide {
  proxy: TcpProxy;
  /** Ends the connections that the service keeps, so everything happens again. */
  startAfresh(): Promise<void>;
  /** Writes this many random bytes to a file at the source. */
  create(file: string, bytes: number): Promise<void>;
  /** Submits the transfer of a file to a folder of the same name. */
  beginOf(file: string, options?: { overwrite: boolean }): Promise<string>;
  retries(id: string): Promise<TransferError[]>;
  /** True if its mover has recorded that it is about to commit. */
  isCommitting(id: string): Promise<boolean>;
  /** True if the destination has it under its name. */
  exists(file: string): Promise<boolean>;
  /** Waits for the end. Expects that the file has arrived whole and that nothing else is left. */
  arrives(id: string, file: string): Promise<void>;
}

export function oneSide(
  { installation, other }: Surroundings,
  faulty: Faulty,
  side: Side,
): OneSide {
  const [source, destination] = side === 'source' ? [faulty, other] : [other, faulty];
  const { protocol } = ENDPOINT_KINDS[faulty.name];
  const at = (host: string, path: string) =>
    `${host === 'other' ? 's3' : protocol}://${host}/${encodeURI(path)}`;
  return {
    proxy: faulty.proxy,
    async startAfresh() {
      await until('the connections are gone', () => {
        faulty.proxy.cut();
        return faulty.proxy.connections === 0;
      });
    },
    create: (file, bytes) => source.put(file, randomBytes(bytes)),
    beginOf(file, { overwrite } = { overwrite: true }) {
      const careful = overwrite ? faulty.name : `${faulty.name}-once`;
      const [from, to] = side === 'source' ? [faulty.name, 'other'] : ['other', careful];
      return submit(installation, at(from, file), at(to, `${file}/${file}`));
    },
    retries: (id) => retriesOf(installation, id),
    async isCommitting(id) {
      const [row] = await installation.sql`
          select resume_record->>'committing' as noted from work.transfer_jobs
           where transfer_id = ${id}`;
      return row?.noted != null;
    },
    exists: async (file) => (await destination.read(`${file}/${file}`))?.destroy() !== undefined,
    async arrives(id, file) {
      const done = await untilStatus(installation, id, ['completed', 'failed'], 60);
      const sha256 = await sha256At(source, file);
      expect(done).toMatchObject({ status: 'completed', checksum_sha256: sha256 });
      expect(await sha256At(destination, `${file}/${file}`)).toBe(sha256);
      await untilCleanedUp(installation, id);
      await until('nothing else is left', async () => {
        if ((await destination.names(file)).join() === `${file}/${file}`) return true;
        // The server has carried out a request after the clean-up, which a look undoes.
        await installation.sql`
          update work.late_looks set due_at = now() where transfer_id = ${id}`;
        return false;
      });
    },
  };
}

/** Returns the bytes that are sent over a new connection before the sign-in. */
export async function bytesBeforeSignIn({ request, proxy }: Faulty): Promise<number> {
  const parsed = endpointRequest.parse({ ...request, name: 'probed' });
  const endpoint = await openFileEndpoint(definitionOf(parsed), credentialsOf(parsed).credentials);
  const before = proxy.forwarded.up;
  await endpoint.probe(AbortSignal.timeout(20_000));
  await endpoint.close();
  return proxy.forwarded.up - before;
}
