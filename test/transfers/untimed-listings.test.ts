import { mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { loadFlow } from '../../src/commands/flows.ts';
import { dryRun } from '../../src/processes/flows/dry-run.ts';
import { examine, versionIn } from '../../src/processes/flows/examine.ts';
import {
  type PyftpdlibServer,
  startPyftpdlib,
  whyNoPyftpdlib,
} from '../support/file-servers/ftps/pyftpdlib.ts';
import { flowsOf } from '../support/service/flows.ts';
import {
  configureEndpoint,
  openTestInstallation,
  type TestInstallation,
} from '../support/service/installation.ts';
import { type RunningRoles, startRoles } from '../support/service/roles.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 90_000, hookTimeout: 60_000 });

const reason = await whyNoPyftpdlib();
const HOUR = 3_600_000;
const never = new AbortController().signal;

describe.skipIf(reason !== null)(
  `a flow from an FTPS server without MLSD${reason ? ` (skipped: ${reason})` : ''}`,
  () => {
    let server: PyftpdlibServer;
    let installation: TestInstallation;
    let roles: RunningRoles;

    beforeAll(async () => {
      [server, installation] = await Promise.all([
        startPyftpdlib(['no-mlsd']),
        openTestInstallation(),
      ]);
      roles = await startRoles(installation, ['projector', 'mover', 'monitor']);
      const { host, port, username, password, caPem } = server;
      const request = { name: 'untimed', protocol: 'ftps', host, port, username, password };
      await configureEndpoint(installation, { ...request, base_path: '/', ca_pem: caPem });
    });
    afterAll(async () => {
      await roles?.stop();
      await installation?.close();
      await server?.stop();
    });

    function write(path: string, content: string, at: number): void {
      const file = join(server.root, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content);
      utimesSync(file, new Date(at), new Date(at));
    }

    const create = (folder: string, more = {}) =>
      flowsOf({ installation }).create(folder, {
        source: { uri: `ftps://untimed/${folder}/` },
        destination_uri: `ftps://untimed/copies-of-${folder}/`,
        ...more,
      });

    test('takes a file that comes back with the same size', async () => {
      const flows = flowsOf({ installation });
      write('rates/rates.csv', 'first', Date.now() - 2 * HOUR);
      const id = await create('rates');
      expect(await flows.run(id)).toMatchObject({ status: 'completed', counts: { files: 1 } });
      expect(await flows.run(id)).toMatchObject({ status: 'empty' });
      write('rates/rates.csv', 'other', Date.now() - HOUR);
      expect(await flows.run(id)).toMatchObject({ status: 'completed', counts: { files: 1 } });
      expect(readFileSync(join(server.root, 'copies-of-rates/rates.csv'), 'utf8')).toBe('other');
      expect(await flows.run(id)).toMatchObject({ status: 'empty' });
    });

    test('waits for a marker that is as new as its file', async () => {
      write('marked/a.csv.done', '', Date.now() - 2 * HOUR);
      write('marked/a.csv', 'the next version, half written', Date.now() - HOUR);
      const id = await create('marked', { ready: { marker: '.done' } });
      const { state } = await loadFlow(installation.commands, 'acc_default', id);
      expect(await dryRun(installation, state, never)).toMatchObject({
        counts: { take: 0, wait: 1 },
        data: [{ path: 'a.csv', reason: 'Is newer than its .done file' }],
      });
    });

    test('does not take again what a release took that did not ask for times', async () => {
      const flows = flowsOf({ installation });
      write('older/a.csv', 'taken', Date.now() - HOUR);
      const id = await create('older');
      await flows.run(id);
      const { state } = await loadFlow(installation.commands, 'acc_default', id);
      const entry = { name: 'a.csv', type: 'file', size: 5, modified_at: null } as const;
      const { key } = versionIn(state, { path: 'a.csv', entry });
      await installation.sql`update read.flow_files set file_key = ${key} where flow_id = ${id}`;
      const decisions = async () => {
        const looks = examine(
          installation,
          state,
          { through: null, at: new Date(), remember: false, retries: false },
          never,
        );
        const found: unknown[] = [];
        for await (const one of looks) found.push('decision' in one && one.decision);
        return found;
      };
      expect(await decisions()).toEqual(['taken']);
      write('older/a.csv', 'newer', Date.now() + HOUR);
      expect(await decisions()).toEqual(['take']);
    });
  },
);
