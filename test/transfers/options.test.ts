import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { Transfer } from '../../src/domain/transfer.ts';
import {
  ENDPOINT_KINDS,
  type EndpointName,
  sha256At,
  type TestEndpoint,
  uriOf,
  whyNotAll,
} from '../support/endpoints.ts';
import {
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../support/installation.ts';
import { describeWithPostgres } from '../support/postgres.ts';
import { type RunningRoles, startRoles } from '../support/roles.ts';
import { storyOf, untilCleanedUp } from '../support/transfers.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 90_000 });

const MiB = 1 << 20;
/** Files that every adapter sends in one piece, and in several. */
const FILES = { small: randomBytes(10_000), large: randomBytes(9 * MiB) };
const KINDS = ['sftp', 'ftps', 's3-strict', 'azure'] as const;
const sha256Of = (content: Buffer) => createHash('sha256').update(content).digest('hex');

/** Defines a test for each kind of endpoint whose server can run, else skips it by name. */
function testEach(what: string, run: (name: EndpointName) => Promise<void>): void {
  for (const name of KINDS) {
    const reason = whyNotAll([name]);
    test.skipIf(reason)(`${what}: ${name}${reason ? ` (skipped: ${reason})` : ''}`, () =>
      run(name),
    );
  }
}

describeWithPostgres('options of a transfer', () => {
  let installation: TestInstallation;
  let roles: RunningRoles;
  const endpoints = new Map<EndpointName, TestEndpoint>();
  const endpointOf = (name: EndpointName) => endpoints.get(name) as TestEndpoint;

  beforeAll(async () => {
    const available = KINDS.filter((name) => !whyNotAll([name]));
    installation = await openTestInstallation();
    await Promise.all(
      available.map(async (name) => endpoints.set(name, await ENDPOINT_KINDS[name].start())),
    );
    roles = await startRoles(installation);
    for (const [name, { request }] of endpoints)
      await configureEndpoint(installation, { ...request, name });
    for (const endpoint of endpoints.values())
      for (const [name, content] of Object.entries(FILES))
        await endpoint.put(`source/${name}`, content);
  });
  afterAll(async () => {
    await roles?.stop();
    await Promise.all([
      installation?.close(),
      ...[...endpoints.values()].map((endpoint) => endpoint.stop()),
    ]);
  });

  async function move(
    from: string,
    to: string,
    options: Record<string, unknown>,
  ): Promise<{ id: string; ended: Transfer }> {
    const id = await submit(installation, from, to, options);
    return { id, ended: await untilStatus(installation, id, ['completed', 'failed']) };
  }

  testEach('a file that has not the expected SHA-256 never gets its name', async (name) => {
    for (const file of ['small', 'large'] as const) {
      const target = `unexpected/${file}`;
      await endpointOf(name).put(target, Buffer.from('the file before'));
      const expected_sha256 = sha256Of(Buffer.from('another file'));
      const source = uriOf(name, `source/${file}`);
      const { id, ended } = await move(source, uriOf(name, target), { expected_sha256 });
      expect(ended).toMatchObject({
        status: 'failed',
        facts: {
          expected_sha256,
          retry_count: 0,
          error: {
            code: 'checksum_mismatch',
            message: `The source has the SHA-256 ${sha256Of(FILES[file])}, expected is ${expected_sha256}`,
            phase: 'verify',
            retryable: false,
          },
        },
      });
      expect(await storyOf(installation, id)).toEqual([
        'created',
        'queued: admitted',
        'in_progress',
        'failed',
      ]);
      expect(await sha256At(endpointOf(name), target)).toBe(
        sha256Of(Buffer.from('the file before')),
      );
    }
    await untilCleanedUp(installation);
    expect((await endpointOf(name).names('unexpected')).sort()).toEqual([
      'unexpected/large',
      'unexpected/small',
    ]);
  });

  testEach('a file with the expected SHA-256 arrives', async (name) => {
    for (const [file, content] of Object.entries(FILES)) {
      const expected_sha256 = sha256Of(content).toUpperCase();
      const target = `expected/${file}`;
      const { ended } = await move(uriOf(name, `source/${file}`), uriOf(name, target), {
        expected_sha256,
      });
      expect(ended).toMatchObject({
        status: 'completed',
        checksum_sha256: sha256Of(content),
        facts: { expected_sha256: sha256Of(content) },
      });
      expect(await sha256At(endpointOf(name), target)).toBe(sha256Of(content));
    }
  });
});
