import { afterAll, beforeAll, expect, onTestFinished } from 'vitest';
import { type ProxiedEndpoint, startBehindProxy } from '../support/file-servers/behind-proxy.ts';
import { type EndpointName, sha256At } from '../support/file-servers/endpoints.ts';
import {
  configureEndpoint,
  openTestInstallation,
  type TestInstallation,
  transferInLog,
} from '../support/service/installation.ts';
import {
  type RunningRoles,
  type SpawnedService,
  spawnMover,
  startDispatch,
} from '../support/service/roles.ts';
import { storyOf, untilCleanedUp } from '../support/service/transfers.ts';

export const MiB = 1 << 20;

const TAKEN_OVER = [
  'created',
  'queued: admitted',
  'in_progress',
  'queued: mover_lost',
  'in_progress',
  'completed',
];

export interface Takeover {
  readonly installation: TestInstallation;
  /**
   * Returns the endpoint of a kind, without a limit of its line. Its server starts with the first
   * test that needs it. Each test overwrites the files of the one before.
   */
  start(name: EndpointName): Promise<ProxiedEndpoint>;
  /**
   * Returns a mover in a process of its own: the one that the test before kept, else a new one. It
   * is killed after the test unless the test keeps it.
   */
  startMover(): Promise<SpawnedService>;
  /** Keeps a mover for the next test. */
  keep(mover: SpawnedService): void;
  /** Fails if the transfer was not taken over once, or its destination has not exactly its file. */
  expectArrived(id: string, destination: ProxiedEndpoint, sha256: string | null): Promise<void>;
}

/**
 * Provides one installation for the tests of a suite, in which a second mover takes over a
 * transfer.
 */
export function useTakeover(): Takeover {
  let installation: TestInstallation;
  let dispatch: RunningRoles;
  let kept: SpawnedService | null = null;
  const endpoints = new Map<EndpointName, Promise<ProxiedEndpoint>>();

  beforeAll(async () => {
    installation = await openTestInstallation();
    dispatch = startDispatch(installation);
  });
  afterAll(async () => {
    await kept?.kill();
    await dispatch?.stop();
    await installation?.close();
    for (const endpoint of endpoints.values()) await (await endpoint).stop();
  });

  async function startEndpoint(name: EndpointName): Promise<ProxiedEndpoint> {
    const endpoint = await startBehindProxy(name);
    await configureEndpoint(installation, { ...endpoint.request, name });
    return endpoint;
  }

  return {
    get installation() {
      return installation;
    },
    async start(name) {
      const starting = endpoints.get(name) ?? startEndpoint(name);
      endpoints.set(name, starting);
      const endpoint = await starting;
      endpoint.proxy.throttle(Number.POSITIVE_INFINITY);
      return endpoint;
    },
    async startMover() {
      const mover = kept ?? (await spawnMover(installation.environment));
      kept = null;
      onTestFinished(() => (mover === kept ? undefined : mover.kill()));
      return mover;
    },
    keep(mover) {
      kept = mover;
    },
    async expectArrived(id, destination, sha256) {
      expect(await transferInLog(installation, id)).toMatchObject({
        status: 'completed',
        checksum_sha256: sha256,
      });
      expect(await storyOf(installation, id)).toEqual(TAKEN_OVER);
      await untilCleanedUp(installation, id);
      expect(await sha256At(destination, 'folder/file')).toBe(sha256);
      expect(await destination.names('folder')).toEqual(['folder/file']);
    },
  };
}
