import { randomBytes } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import {
  type FtpsServer,
  startFtpsServer,
  whyNoFtpsServer,
} from '../../../support/file-servers/ftps/server.ts';
import { download, options, upload, whole, writeFrom } from '../contract.ts';
import { endpointOn } from './ftps-endpoint.ts';

const never = new AbortController().signal;
const CHUNK = 4 << 20;
/** On a busy machine, a new connection must have its data connection before that. */
const SESSION_SECONDS = 3;
const whyNot = await whyNoFtpsServer('proftpd');

// The server requires that data connections resume the TLS session of their control connection.
for (const version of ['TLSv1.2', 'TLSv1.3'])
  describe.skipIf(whyNot !== null)(
    `a control connection that outlives its TLS session, over ${version}${whyNot ? ` (${whyNot})` : ''}`,
    () => {
      let server: FtpsServer;
      const open: FileEndpoint[] = [];
      const content = randomBytes(2 * CHUNK + 99);

      beforeAll(async () => {
        server = await startFtpsServer({
          kind: 'proftpd',
          tls: 'explicit',
          extraConfig: `TLSProtocol ${version}\nTLSSessionCache internal: ${SESSION_SECONDS}`,
        });
        await writeFile(join(server.root, 'source'), content);
      });
      afterAll(async () => {
        for (const endpoint of open) await endpoint.close();
        await server?.stop();
      });

      const at = (name: string) => server.remotePath(name);
      const sessionExpires = () => sleep((SESSION_SECONDS + 2) * 1_000);

      function endpointWith(maxConnections: number): FileEndpoint {
        const endpoint = endpointOn(server, { maxConnections });
        open.push(endpoint);
        return endpoint;
      }

      /**
       * Returns an endpoint whose warm connections have all had a data connection and have expired
       * since.
       */
      async function expired(connections = 1): Promise<FileEndpoint> {
        const endpoint = endpointWith(connections);
        // Each file holds a connection from its first byte to its last.
        const files = await Promise.all(
          Array.from({ length: connections }, () => endpoint.openSource(at('source'), never)),
        );
        await Promise.all(files.map((file) => file.read(0, new Uint8Array(1))));
        await Promise.all(files.map((file) => file.read(1, new Uint8Array(content.length - 1))));
        await Promise.all(files.map((file) => file.close()));
        expect(await endpoint.connections()).toBe(connections);
        await sessionExpires();
        return endpoint;
      }

      test.concurrent('lists a folder', async () => {
        const over = await expired();
        expect((await over.list(server.root, never)).map(({ name }) => name)).toContain('source');
        expect((await over.list(server.root, never)).map(({ name }) => name)).toContain('source');
      });

      test.concurrent('lists a folder although all warm connections have expired', async () => {
        const over = await expired(4);
        expect((await over.list(server.root, never)).map(({ name }) => name)).toContain('source');
      });

      test.concurrent('reads a file from its start and from the middle', async () => {
        const over = await expired();
        const file = await over.openSource(at('source'), never);
        const rest = Buffer.alloc(content.length - CHUNK);
        await file.read(CHUNK, rest);
        expect(rest.equals(content.subarray(CHUNK))).toBe(true);
        await sessionExpires();
        expect(await file.stat()).toEqual(file.identity);
        const start = Buffer.alloc(CHUNK);
        await file.read(0, start);
        expect(start.equals(content.subarray(0, CHUNK))).toBe(true);
        await file.close();
      });

      test.concurrent('reads an empty file', async () => {
        await writeFile(join(server.root, 'empty'), '');
        expect(await download(await expired(), at('empty'))).toEqual(Buffer.alloc(0));
      });

      test.concurrent.each([0, 5, CHUNK, content.length])(
        'writes a file of %i bytes',
        async (bytes) => {
          const over = await expired();
          await upload(over, at(`written-${bytes}`), content.subarray(0, bytes));
          const written = await readFile(join(server.root, `written-${bytes}`));
          expect(written.equals(content.subarray(0, bytes))).toBe(true);
        },
      );

      test.concurrent('continues a part', async () => {
        const endpoint = endpointWith(1);
        const first = await endpoint.openDestination(at('resumed'), options(content.length));
        await first.write(0, content.subarray(0, CHUNK));
        await first.close();
        const resume = await first.resumePoint(CHUNK);
        await sessionExpires();
        const second = await endpoint.openDestination(
          at('resumed'),
          options(content.length, { resume }),
        );
        expect(second.resumedFrom).toBe(CHUNK);
        await writeFrom(second, content);
        await second.commit(whole(content));
        await second.close();
        expect(content.equals(await readFile(join(server.root, 'resumed')))).toBe(true);
      });

      test.concurrent('receives a file that takes longer, and the next one', async () => {
        const endpoint = endpointWith(2);
        const source = await endpoint.openSource(at('source'), never);
        const chunk = Buffer.alloc(CHUNK);
        await source.read(0, chunk);
        const file = await endpoint.openDestination(at('slow'), options(content.length));
        await file.write(0, chunk);
        await sessionExpires();
        await source.read(CHUNK, chunk);
        await file.write(CHUNK, chunk);
        const last = Buffer.alloc(content.length - 2 * CHUNK);
        await source.read(2 * CHUNK, last);
        await file.write(2 * CHUNK, last);
        expect(await source.stat()).toEqual(source.identity);
        await source.close();
        await file.commit(whole(content));
        await file.close();
        expect(content.equals(await readFile(join(server.root, 'slow')))).toBe(true);
        expect(content.equals(await download(endpoint, at('slow')))).toBe(true);
      });

      test.concurrent('removes the leftovers of a transfer', async () => {
        const endpoint = endpointWith(1);
        const given = options(content.length);
        const file = await endpoint.openDestination(at('left'), given);
        await file.write(0, content.subarray(0, CHUNK));
        await file.close();
        await sessionExpires();
        const { transferId, signal } = given;
        await endpoint.removeLeftovers(at('left'), { transferId, resume: null, signal });
        expect((await readdir(server.root)).filter((name) => name.includes('left'))).toEqual([]);
      });
    },
  );
