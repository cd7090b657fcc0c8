import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { connect, type Sql } from '../../../src/adapters/postgres/connect.ts';
import {
  serviceSignature,
  signatureHeaders,
  signingKeys,
} from '../../../src/adapters/webhooks/signature.ts';
import type { Delivery } from '../../../src/contract/webhooks/deliveries.ts';
import { newId } from '../../../src/domain/ids.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';
import { LONG } from '../../support/run/long.ts';
import {
  CLI_TIMEOUT_MS,
  type Cli,
  createCli,
  settingsFor,
  written,
} from '../../support/service/cli.ts';
import { type SpawnedService, spawnService } from '../../support/service/roles.ts';
import { until } from '../../support/service/transfers.ts';

vi.setConfig({ testTimeout: CLI_TIMEOUT_MS, hookTimeout: CLI_TIMEOUT_MS });

const SECRET = 'correct-horse-battery';
const EVENT = {
  id: 'evt_1',
  type: 'transfer.completed',
  created_at: '2026-01-31T09:30:00.000Z',
  data: { file_name: '\u001b[31m.csv' },
};
const BODY = JSON.stringify(EVENT);

let folder: string;
let secretFile: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waybill-webhooks-'));
  secretFile = join(folder, 'secret');
  await writeFile(secretFile, `${SECRET}\n`);
});
afterAll(() => rm(folder, { recursive: true }));

/** Runs `waybill webhooks listen` on a free port. */
async function startListening(cli: Cli, args: string[]) {
  const child = cli.start(['webhooks', 'listen', '--port', '0', ...args]);
  let output = '';
  child.stdout!.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  let notes = '';
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    notes += text;
  });
  const [, url] = (await written(child.stderr!, /Listening at (\S+)\.\s/)) as unknown as [
    string,
    string,
  ];
  return {
    url,
    notes: () => notes,
    output: () => output,
    /** Returns the requests that it has shown as JSON. */
    events: <T = Record<string, unknown>>() =>
      output
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as T),
    /** Closes its output, as `head` does. */
    closeOutput: () => child.stdout!.destroy(),
    async ended() {
      const [code] = child.exitCode === null ? await once(child, 'close') : [child.exitCode];
      return code as number;
    },
    stop() {
      child.kill('SIGINT');
      return this.ended();
    },
  };
}

async function post(url: string, body: string, headers: Record<string, string>): Promise<number> {
  const response = await fetch(url, { method: 'POST', body, headers });
  await response.arrayBuffer();
  return response.status;
}

describe('waybill webhooks listen', () => {
  const cli = createCli({});
  const signed = signatureHeaders(
    { current: signingKeys(SECRET), previous: null },
    EVENT.id,
    1_769_851_800,
    BODY,
  );

  it('shows requests, and rejects those that the secret does not verify', LONG, async () => {
    const listening = await startListening(cli, ['--secret-file', secretFile, '--json']);
    expect(listening.notes()).toContain('WAYBILL_WEBHOOK_ALLOW_CIDRS=127.0.0.1/32');
    expect(listening.notes()).toContain('transfer.failed --secret-file ...`');
    expect(listening.notes()).not.toContain(SECRET);
    expect(await post(listening.url, BODY, signed)).toBe(200);
    expect(
      await post(listening.url, BODY, {
        'X-Service-Signature': serviceSignature(signingKeys('another'), BODY),
      }),
    ).toBe(401);
    expect(await post(listening.url, BODY, {})).toBe(401);
    expect(
      await post(listening.url, 'no JSON', {
        'X-Service-Signature': serviceSignature(signingKeys(SECRET), 'no JSON'),
      }),
    ).toBe(200);
    expect((await fetch(listening.url)).status).toBe(405);
    await until('all is shown', () => listening.events().length === 4);
    expect(listening.events()).toMatchObject([
      { verified: true, event: EVENT, body: null, received_at: expect.stringMatching(/^\d{4}-/) },
      {
        verified: false,
        verifications: [
          {
            header: 'X-Service-Signature',
            objection: expect.stringContaining(signed['X-Service-Signature']!),
          },
        ],
      },
      { verified: false, verifications: [] },
      { verified: true, event: null, body: 'no JSON' },
    ]);
    expect(await listening.stop()).toBe(0);
  });

  it('shows text without control characters, until the reader has seen enough', LONG, async () => {
    const listening = await startListening(cli, []);
    expect(await post(listening.url, BODY, {})).toBe(200);
    await until('it is shown', () => listening.output().endsWith('\n'));
    expect(listening.output()).toBe(
      `evt_1  transfer.completed  not verified  ${JSON.stringify(EVENT.data)}\n`,
    );
    const taken = await cli.run(['webhooks', 'listen', '--port', new URL(listening.url).port]);
    expect(taken).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/is in use: choose another with --port/),
    });
    listening.closeOutput();
    await post(listening.url, BODY, {}).catch(() => undefined);
    expect(await listening.ended()).toBe(0);
  });
});

describe('waybill webhooks verify', () => {
  const cli = createCli({});
  let file: string;

  beforeAll(async () => {
    file = join(folder, 'body.json');
    await writeFile(file, BODY);
  });

  const verify = (args: string[], input?: string) =>
    cli.run(['webhooks', 'verify', '--secret-file', secretFile, ...args], input);

  it('says for each signature whether it is right', async () => {
    const signature = serviceSignature(signingKeys(SECRET), BODY);
    expect(await verify(['--body-file', file, '--signature', signature])).toMatchObject({
      code: 0,
      stdout: 'X-Service-Signature: verified\n',
      stderr: '',
    });
    const {
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': standard,
    } = signatureHeaders(
      { current: signingKeys('another secret'), previous: signingKeys(SECRET) },
      'evt_1',
      1_769_851_800,
      BODY,
    ) as Record<string, string>;
    const three = ['--id', id!, '--timestamp', timestamp!, '--webhook-signature', standard!];
    expect(await verify(['--body-file', '-', ...three], BODY)).toMatchObject({
      code: 0,
      stdout: 'webhook-signature: verified\n',
    });
    expect(
      await verify(['--body-file', '-', '--signature', signature, ...three], `${BODY} `),
    ).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(
        /^X-Service-Signature: NOT verified: this .*\nwebhook-signature: NOT verified: this .*\n$/,
      ),
    });
  });

  it('takes a secret that the list of processes does not show', async () => {
    const verified = async (args: string[], input?: string) =>
      cli.run(
        ['webhooks', 'verify', '--signature', serviceSignature(signingKeys(SECRET), BODY), ...args],
        input,
      );
    const body = ['--body-file', file];
    expect(await verified([...body, '--secret-file', '-'], SECRET)).toMatchObject({ code: 0 });
    expect(await verified([...body, '--secret', SECRET])).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/visible in the list of processes: use --secret-file/),
    });
    for (const wrong of [
      body,
      [...body, '--secret-file', '-'],
      [...body, '--secret-file', join(folder, 'none')],
      [...body, '--secret-file', secretFile, '--secret', SECRET],
      ['--body-file', '-', '--secret-file', '-'],
    ])
      expect(await verified(wrong, '')).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/secret-file|does not exist/),
      });
  });

  it('asks for options that belong together', async () => {
    expect(await verify(['--body-file', file])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--signature'),
    });
    expect(await verify(['--body-file', file, '--id', 'evt_1'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--timestamp'),
    });
  });
});

describeWithPostgres('waybill webhooks', () => {
  let database: TestDatabase;
  let cli: Cli;
  let sql: Sql;
  let service: SpawnedService;

  beforeAll(async () => {
    database = await createTestDatabase();
    const settings = { ...settingsFor(database.url), WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.1/32' };
    cli = createCli(settings);
    sql = connect(database.url);
    service = await spawnService(settings, ['projector', 'webhooks']);
  });
  afterAll(async () => {
    await service?.stop();
    await sql?.end();
    await database?.drop();
  });

  it('registers and removes a webhook, and shows and retries its deliveries', async () => {
    const listening = await startListening(cli, ['--secret-file', secretFile, '--json']);
    const add = [
      'webhooks',
      'add',
      '--url',
      listening.url,
      '--events',
      'transfer.completed,transfer.failed',
    ];
    const added = await cli.run([...add, '--secret-file', '-', '--json'], `${SECRET}\n`);
    expect(added).toMatchObject({ code: 0, stderr: '' });
    const [{ id }] = added.json<{ id: string }>() as [{ id: string }];
    expect((await cli.run(['webhooks', 'list', '--json'])).json()).toMatchObject([
      { id, url: listening.url, enabled: true },
    ]);

    await until(
      'the service shows it',
      async () => (await sql`select from work.outbox_webhooks where webhook_id = ${id}`).length > 0,
    );
    const [{ id: delivery }] = (await cli.run(['webhooks', 'ping', id, '--json'])).json<{
      id: string;
    }>() as [{ id: string }];
    const arrived = (count: number) =>
      until(`${count} deliveries`, () => listening.events().length >= count);
    await arrived(1);
    const shown = await until('it is noted', async () => {
      const { data } = (
        await cli.run(['webhooks', 'deliveries', id, '--status', 'delivered', '--json'])
      ).json<{ data: Delivery[] }>()[0]!;
      return data[0];
    });
    expect(shown).toMatchObject({
      id: delivery,
      event_type: 'ping',
      status: 'delivered',
      attempts: 1,
    });
    expect((await cli.run(['webhooks', 'deliveries'])).stdout).toContain(delivery);

    expect((await cli.run(['webhooks', 'retry', delivery])).stdout).toBe(
      '1 delivery is pending again\n',
    );
    await arrived(2);
    const [first, second] = listening.events<{ verified: boolean; event: { id: string } }>();
    expect(first).toMatchObject({ verified: true, event: { id: shown.event_id } });
    expect(second?.event).toEqual(first?.event);
    expect((await cli.run(['webhooks', 'retry', id, '--json'])).json()).toEqual([
      { id, retried: 0 },
    ]);
    expect(
      await cli.run(['webhooks', 'replay', id, '--from', '2026-01-31T09:30:00Z']),
    ).toMatchObject({ code: 0 });

    expect((await cli.run(['webhooks', 'remove', id])).stdout).toBe(`${id} is removed\n`);
    expect(await cli.run(['webhooks', 'retry', delivery])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('no webhook'),
    });
    expect(await cli.run(['webhooks', 'list'])).toMatchObject({
      code: 0,
      stdout: '',
      stderr: expect.stringContaining('webhooks add'),
    });
    expect(await listening.stop()).toBe(0);
  });

  it('shows a generated secret once, and rejects invalid input', async () => {
    const added = await cli.run([
      'webhooks',
      'add',
      '--url',
      'https://receiver.example.com/',
      '--events',
      'key.expiring_soon',
    ]);
    const secret = /^secret +(whsec_\S{44})$/m.exec(added.stdout)?.[1];
    expect(secret).toBeDefined();
    expect((await cli.run(['webhooks', 'list', '--json'])).stdout).not.toContain(secret);
    const refused = await cli.run([
      'webhooks',
      'add',
      '--url',
      'http://10.0.0.1/',
      '--events',
      'transfer.done',
    ]);
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringMatching(/events/) });
    const hostile = await cli.run([
      'webhooks',
      'add',
      '--url',
      'http://10.0.0.1/',
      '--events',
      'transfer.failed',
    ]);
    expect(hostile).toMatchObject({ code: 2, stderr: expect.stringMatching(/url: .*https/) });
  });

  it('knows only the webhooks of the account', LONG, async () => {
    const mine = ['--account', 'acc_mine', '--json'];
    const add = [
      'webhooks',
      'add',
      '--url',
      'https://receiver.example.com/',
      '--events',
      'transfer.failed',
      ...mine,
    ];
    expect(await cli.run(add)).toMatchObject({ code: 3, stdout: '' });
    await cli.run(['keys', 'create', '--name', 'x', '--role', 'viewer', ...mine]);
    const [webhook] = (await cli.run(add)).json<{ id: string }>();
    const none = { code: 3, stderr: expect.stringMatching(/^waybill: There is no /) };
    expect(
      await cli.run(['webhooks', 'remove', webhook!.id, '--account', 'acc_other']),
    ).toMatchObject(none);
    expect(await cli.run(['webhooks', 'retry', newId('dlv')])).toMatchObject(none);
    expect(await cli.run(['webhooks', 'deliveries', 'whk_1'])).toMatchObject(none);
    expect(await cli.run(['webhooks', 'replay', webhook!.id, '--from', 'yesterday'])).toMatchObject(
      { code: 2 },
    );
  });
});
