import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import {
  type PyftpdlibRule,
  type PyftpdlibServer,
  startPyftpdlib,
  whyNoPyftpdlib,
} from '../../../support/file-servers/ftps/pyftpdlib.ts';
import { LONG } from '../../../support/run/long.ts';
import { describeFileEndpoint, download, upload } from '../contract.ts';
import { endpointOn, fixtureOn } from './ftps-endpoint.ts';

const reason = await whyNoPyftpdlib();

describe.skipIf(reason !== null)(
  `FTPS on pyftpdlib${reason ? ` (skipped: ${reason})` : ''}`,
  () => {
    let server: PyftpdlibServer;
    let endpoint: FileEndpoint;

    async function start(...rules: PyftpdlibRule[]): Promise<void> {
      server = await startPyftpdlib(rules);
      endpoint = endpointOn(server);
    }

    afterEach(async () => {
      await endpoint.close();
      await server.stop();
    });

    test('a file moves in and out, although no byte may come before its command', async () => {
      await start();
      const content = randomBytes(100_000);
      await upload(endpoint, '/new folder/file', content);
      expect(content.equals(await download(endpoint, '/new folder/file'))).toBe(true);
    });

    test.each(['dash-refused', 'dash-empty'] as const)(
      'a folder is listed if the server takes an option for a name: %s',
      async (rule) => {
        await start('no-mlsd', rule);
        mkdirSync(join(server.root, 'in/folder'), { recursive: true });
        writeFileSync(join(server.root, 'in/file.csv'), 'five!');
        const entries = await endpoint.list('/in', new AbortController().signal);
        expect(entries.sort((a, b) => a.name.localeCompare(b.name))).toEqual([
          { name: 'file.csv', type: 'file', size: 5, modified_at: null },
          { name: 'folder', type: 'directory', size: null, modified_at: null },
        ]);
      },
    );
  },
);

describeFileEndpoint(
  'FTPS on pyftpdlib',
  reason,
  async () => fixtureOn(await startPyftpdlib(), 'explicit'),
  { partFiles: true, ...LONG },
);
