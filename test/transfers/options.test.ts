import { createHash, randomBytes } from 'node:crypto';
import { stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { commitAlways } from '../../src/adapters/files/commit.ts';
import { openFileEndpoint } from '../../src/adapters/files/open.ts';
import type { FileEndpoint } from '../../src/adapters/files/port.ts';
import { credentialsOf, definitionOf } from '../../src/contract/endpoints/definition.ts';
import { endpointRequest } from '../../src/contract/endpoints/requests.ts';
import type { Transfer } from '../../src/domain/transfers/transfer.ts';
import type { Move, ResumeRecord } from '../../src/processes/mover/move/move-state.ts';
import { upload } from '../adapters/files/contract.ts';
import {
  ENDPOINT_KINDS,
  type EndpointName,
  sha256At,
  type TestEndpoint,
  uriOf,
  whyNotAll,
} from '../support/file-servers/endpoints.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { longUnless } from '../support/run/long.ts';
import {
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../support/service/installation.ts';
import { moveWith } from '../support/service/move.ts';
import { type RunningRoles, startRoles } from '../support/service/roles.ts';
import { storyOf, untilCleanedUp } from '../support/service/transfers.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 180_000, hookTimeout: 240_000 });

const MiB = 1 << 20;
/** Files that every adapter sends in one piece, and in several. */
const FILES = { small: randomBytes(10_000), large: randomBytes(9 * MiB) };
const KINDS = ['sftp', 'ftps', 's3-strict', 'azure'] as const;
/** Kinds with which `npm test` tries each option. */
const SHORT: EndpointName[] = ['sftp', 's3-strict'];
const sha256Of = (content: Buffer) => createHash('sha256').update(content).digest('hex');

/** Defines a test for each kind of endpoint whose server can run, else skips it by name. */
function testEach(what: string, run: (name: EndpointName) => Promise<void>): void {
  for (const name of KINDS) {
    const reason = whyNotAll([name]);
    test.skipIf(reason)(
      `${what}: ${name}${reason ? ` (skipped: ${reason})` : ''}`,
      longUnless(SHORT.includes(name)),
      () => run(name),
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

  /** Opens the endpoint in this process, without a mover. */
  function openEndpoint(name: EndpointName): Promise<FileEndpoint> {
    const request = endpointRequest.parse({ ...endpointOf(name).request, name });
    return openFileEndpoint(definitionOf(request), credentialsOf(request).credentials);
  }

  function readBack(places: Pick<Move, 'source' | 'destination'> & Partial<Move>) {
    return moveWith({ options: { verify: 'read_back' }, ...places });
  }

  async function move(
    from: string,
    to: string,
    options: Record<string, unknown>,
  ): Promise<{ id: string; ended: Transfer }> {
    const id = await submit(installation, from, to, options);
    return { id, ended: await untilStatus(installation, id, ['completed', 'failed'], 150) };
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

  testEach('the destination is read back', async (name) => {
    for (const [file, content] of Object.entries(FILES)) {
      const target = `read-back/${file}`;
      const { ended } = await move(uriOf(name, `source/${file}`), uriOf(name, target), {
        verify: 'read_back',
      });
      expect(ended).toMatchObject({ status: 'completed', verification: { read_back: true } });
      expect(await sha256At(endpointOf(name), target)).toBe(sha256Of(content));
    }
  });

  testEach('a destination that damages the file is noticed', async (name) => {
    const { put, names, root } = endpointOf(name);
    const endpoint = await openEndpoint(name);
    const content = FILES.large;
    const damaged = Buffer.from(content);
    damaged[damaged.length - 1] = (damaged.at(-1) as number) ^ 1;
    const at = (file: string) => (root === null ? file : join(root, file));
    /** As a disk or a server that changes what it has acknowledged. */
    const damaging: FileEndpoint = {
      ...endpoint,
      async openDestination(path, options) {
        const file = await endpoint.openDestination(path, options);
        return {
          ...file,
          async openWritten() {
            const written = await file.openWritten();
            await written?.close();
            if (written) for (const part of await names('damaged')) await put(part, damaged);
            return written && file.openWritten();
          },
          async commit(whole) {
            const proof = await commitAlways(file, whole);
            await put('damaged/file', damaged);
            return { ...proof, version: undefined };
          },
        };
      },
    };
    const saved: (ResumeRecord['committing'] | undefined)[] = [];
    const moving = readBack({
      source: { endpoint, path: at('source/large') },
      destination: { endpoint: damaging, path: at('damaged/file') },
      save: async ({ committing }) => saved.push(committing) > 0,
    });
    await expect(moving).rejects.toMatchObject({
      failure: {
        code: 'checksum_mismatch',
        phase: 'verify',
        message: expect.stringContaining(sha256Of(damaged)),
      },
    });
    // SFTP and FTPS: the file has not got its name. S3 and Azure: it has.
    expect((await names('damaged')).includes('damaged/file')).toBe(root === null);
    expect(saved.some((committing) => committing)).toBe(root === null);
    await endpoint.close();
  });

  const OTHERS = randomBytes(FILES.small.length);
  const STORES = KINDS.filter((name) => name === 's3-strict' || name === 'azure');
  const REPLACED = STORES.flatMap((name) => [
    { name, how: 'replaces it by as many bytes', others: OTHERS },
    { name, how: 'replaces it by fewer bytes', others: OTHERS.subarray(1) },
    { name, how: 'removes it', others: null },
  ]);
  test.for(REPLACED)(
    'another writer that $how is not taken for damage: $name',
    async ({ name, others }, { skip }) => {
      skip(whyNotAll([name]) !== null, whyNotAll([name]) ?? '');
      const { put } = endpointOf(name);
      const endpoint = await openEndpoint(name);
      const raced: FileEndpoint = {
        ...endpoint,
        async openDestination(path, options) {
          const file = await endpoint.openDestination(path, options);
          return {
            ...file,
            async commit(whole) {
              const proof = await commitAlways(file, whole);
              if (others) await put(path, others);
              else await endpoint.remove(path, options.signal);
              return proof;
            },
          };
        },
      };
      const moving = readBack({
        source: { endpoint, path: 'source/small' },
        destination: { endpoint: raced, path: 'raced/file' },
      });
      await expect(moving).rejects.toMatchObject({
        failure: { code: 'destination_changed', phase: 'verify' },
      });
      await endpoint.close();
    },
  );

  testEach('the modification time is preserved', async (name) => {
    const { root } = endpointOf(name);
    const endpoint = await openEndpoint(name);
    const at = new Date('2024-02-29T12:34:56Z');
    const local = endpointOf('sftp').root as string;
    for (const file of Object.keys(FILES)) {
      await utimes(join(local, 'source', file), at, at);
      const target = `dated/${file}`;
      const { ended } = await move(uriOf('sftp', `source/${file}`), uriOf(name, target), {
        preserve_mtime: true,
      });
      expect(ended).toMatchObject({
        status: 'completed',
        mtime: { preserved: true, at: '2024-02-29T12:34:56Z' },
      });
      if (root !== null) expect((await stat(join(root, target))).mtime).toEqual(at);
      // It is the time of the source for the next transfer.
      const path = root === null ? target : join(root, target);
      const found = await endpoint.openSource(path, new AbortController().signal);
      expect(found.modifiedAt).toBe(String(at.getTime() / 1_000));
      await found.close();
    }
    await endpoint.close();
  });

  for (const from of STORES)
    for (const to of STORES) {
      const reason = whyNotAll([from, to]);
      const title = `the content headers of an object are kept: ${from} to ${to}`;
      test.skipIf(reason)(`${title}${reason ? ` (skipped: ${reason})` : ''}`, async () => {
        const headers = { contentType: 'text/csv', contentEncoding: 'gzip' };
        const [source, destination] = [await openEndpoint(from), await openEndpoint(to)];
        for (const [name, content] of Object.entries(FILES)) {
          const [path, target] = [`typed/${name}`, `copy-from-${from}/${name}`];
          await upload(source, path, content, { headers });
          const { ended } = await move(uriOf(from, path), uriOf(to, target), {});
          expect(ended.status).toBe('completed');
          const found = await destination.openSource(target, new AbortController().signal);
          expect(found.headers).toEqual(headers);
          await found.close();
        }
        await Promise.all([source.close(), destination.close()]);
      });
    }
});
