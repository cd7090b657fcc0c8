import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { printProtocols } from '../../scripts/console-api.ts';
import { PROTOCOLS } from '../../src/domain/protocols/index.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../support/postgres/test-database.ts';
import { startProcess } from '../support/programs/server-process.ts';
import { LONG } from '../support/run/long.ts';
import { CLI_TIMEOUT_MS, createSpawnedCli, settingsFor } from '../support/service/cli.ts';
import { until } from '../support/service/transfers.ts';
import { type Copy, copyService } from './copy.ts';
import { type MemoryServer, startMemoryServer } from './memory/server.ts';
import { memory } from './memory.ts';

// Each command is a separate process.
vi.setConfig({ testTimeout: CLI_TIMEOUT_MS });

const USER = { username: 'me', password: 'canary-77aa' };

/**
 * The service with a fifth protocol: a copy of the source, in which one line lists the protocol's
 * facts and one line loads its adapter. Nothing else is changed.
 */
describeWithPostgres('a fifth protocol', () => {
  let copy: Copy;
  let database: TestDatabase;
  let server: MemoryServer;
  beforeAll(async () => {
    copy = await copyService();
    await copy.addFacts();
    await copy.addAdapter();
    database = await createTestDatabase();
    server = await startMemoryServer(`${USER.username}:${USER.password}`);
  });
  afterAll(async () => {
    await server?.stop();
    await database?.drop();
    await copy?.remove();
  });

  test('is configured, tested and used by a transfer', LONG, async () => {
    const environment = settingsFor(database.url);
    const cli = createSpawnedCli(environment, copy.folder, join(copy.folder, 'bin', 'waybill'));
    const { port } = server;
    for (const [name, base_path] of [
      ['from', '/out'],
      ['to', '/in'],
    ]) {
      const request = { name, protocol: 'memory', host: '127.0.0.1', port, base_path, ...USER };
      const added = await cli.run(['endpoints', 'add', '--file', '-'], JSON.stringify(request));
      expect(added).toMatchObject({ code: 0, stderr: '' });
    }
    const tested = await cli.run(['endpoints', 'test', 'to', '--json']);
    expect(tested).toMatchObject({ code: 0, stderr: '' });
    expect(tested.json()).toMatchObject([{ name: 'to', ok: true }]);
    const listed = await cli.run(['endpoints', 'list']);
    expect(listed.stdout).toContain(`me@127.0.0.1:${port}/out`);

    server.files.set('/out/report.csv', Buffer.from('1,2,3'));
    const service = startProcess([process.execPath, 'src/cli.ts', 'serve'], {
      cwd: copy.folder,
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...environment },
    });
    try {
      const create = ['transfers', 'create', 'memory://from/report.csv', 'memory://to/'];
      const created = await cli.run(create);
      expect(created).toMatchObject({ code: 0 });
      const moved = await until(
        'the file has arrived',
        () => server.files.get('/in/report.csv'),
        60,
      );
      expect(moved.toString()).toBe('1,2,3');
      const unknown = await cli.run(['transfers', 'create', 'gopher://a/b', 'memory://to/']);
      expect(unknown.stderr).toContain('sftp://, ftps://, s3://, azure:// or memory://');
    } finally {
      await service.kill();
    }
  });

  test('has a form in the console', () => {
    const printed = printProtocols([...PROTOCOLS, memory as never]);
    expect(printed).toContain('  memory: {"label":"Memory","server":[{"name":"host"');
  });
});
