import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTransfer, type ReservedTransfer } from '../../../src/commands/create-transfer.ts';
import { pauseEndpoint, resumeEndpoint } from '../../../src/commands/endpoints.ts';
import { createKey } from '../../../src/commands/keys.ts';
import { keyRequest } from '../../../src/contract/keys.ts';
import { transferRequest } from '../../../src/contract/transfers/requests.ts';
import { newId } from '../../../src/domain/ids.ts';
import type { Transfer } from '../../../src/domain/transfers/transfer.ts';
import { type Service, startService } from '../../../src/service.ts';
import { type SftpServer, startSftpServer } from '../../support/file-servers/sftp/server.ts';
import {
  CAUSE,
  configureSftp,
  openTestInstallation,
  type TestInstallation,
  untilStatus,
} from '../../support/service/installation.ts';
import { describeTransfers, historyOf, until } from '../../support/service/transfers.ts';

const FILE_BYTES = 10_000;
const MOVERS = 2;

await describeTransfers('a queue', () => {
  let installation: TestInstallation;
  let server: SftpServer;
  let service: Service;
  let endpointId: string;
  let moved = 0;

  beforeAll(async () => {
    [installation, server] = await Promise.all([
      openTestInstallation({ WAYBILL_MOVERS: String(MOVERS) }),
      startSftpServer(),
    ]);
    service = await startService(installation, ['api', 'projector', 'mover']);
    endpointId = await configureSftp(installation, 'server', server);
    writeFileSync(join(server.root, 'file'), randomBytes(FILE_BYTES));
    await until(
      'the mover is known',
      async () => (await installation.sql`select from work.movers`).length === 1,
    );
  });
  afterAll(async () => {
    await service?.stop();
    await Promise.all([installation?.close(), server?.stop()]);
  });

  async function create(
    account = 'acc_default',
    priority = 'normal',
    reserved?: ReservedTransfer,
  ): Promise<Transfer> {
    const request = transferRequest.parse({
      source_uri: 'sftp://server/file',
      destination_uri: `sftp://server/copies/${moved++}`,
      priority,
    });
    return (await createTransfer(installation.commands, account, request, CAUSE, reserved)).state;
  }

  const many = (count: number, account: string) =>
    Promise.all(Array.from({ length: count }, () => create(account)));
  const waitsMs = ({ facts }: Transfer) =>
    Date.parse(facts.estimated_start) - Date.parse(facts.created_at);

  test('of which nothing waits: a transfer is expected to start at once', async () => {
    const transfer = await create();
    expect(waitsMs(transfer)).toBe(0);
    await untilStatus(installation, transfer.facts.transfer_id, 'completed');
  });

  test('of which nothing waits, by a clock that is an hour ahead: it starts at once all the same', async () => {
    const ahead = Date.now() + 3_600_000;
    const reserved = {
      transferId: newId('txr', ahead),
      now: new Date(ahead).toISOString(),
    };
    const transfer = await create('acc_default', 'normal', reserved);
    expect(waitsMs(transfer)).toBe(0);
    await untilStatus(installation, reserved.transferId, 'completed');
  });

  test('in which one account has 200 does not hold up the 5 of another', async () => {
    await pauseEndpoint(installation.commands, endpointId, CAUSE);
    await installation.commands.waitFor('catalog', await installation.store.head());
    const theirs = await many(200, 'acc_many');
    await until(
      'all wait',
      async () =>
        (await installation.sql`select from work.transfer_jobs where status = 'queued'`).length ===
        200,
    );
    const [normal, high] = [await create('acc_few'), await create('acc_few', 'high')];
    const ours = [normal, high, ...(await many(3, 'acc_few'))];
    // Movers pass over transfers at a paused endpoint.
    expect(waitsMs(normal)).toBe(0);

    await resumeEndpoint(installation.commands, endpointId, CAUSE);
    const starts = await Promise.all(
      [...theirs, ...ours].map(async ({ facts: { transfer_id, account_id } }) => {
        await untilStatus(installation, transfer_id, 'completed', 100);
        const started = (await historyOf(installation, transfer_id)).find(
          ({ type }) => type === 'transfer.in_progress',
        );
        return { account_id, position: started?.position as bigint };
      }),
    );
    const accounts = starts
      .toSorted((a, b) => Number(a.position - b.position))
      .map(({ account_id }) => account_id);
    // Turn by turn; who is ahead in a turn may be two more by what movers claim at once.
    expect(accounts.lastIndexOf('acc_few')).toBeLessThan(2 * ours.length + 2 * MOVERS);
    // Estimates multiply this by the transfers ahead.
    await until('the mover reports how long its attempts take', async () => {
      const [mover] = await installation.sql`select mean_duration_ms from work.movers`;
      return mover?.mean_duration_ms > 0;
    });
  }, 120_000);

  test('appears in the metrics of Prometheus, with all that was done', async () => {
    const { key } = await createKey(
      installation.commands,
      keyRequest.parse({ name: 'metrics', scopes: ['metrics:read'] }),
      CAUSE,
      {
        allowNever: false,
      },
    );
    await installation.commands.waitFor('transfers', await installation.store.head());
    await until(
      'no row is left to do',
      async () => (await installation.sql`select from work.transfer_jobs`).length === 0,
    );
    // As it stands while the tables are made anew.
    await installation.sql`insert into read.checkpoints (name, version, log_id, position) values ('transfers:rebuild', 1, ${installation.logId}, 0)`;
    const scrape = async () => {
      const response = await fetch(`${service.url}/metrics`, {
        headers: { authorization: `Bearer ${key}` },
      });
      const text = await response.text();
      return { text, values: valuesOf(text) };
    };
    const ended = 'waybill_attempt_duration_seconds_count{end="completed"}';
    const { text, values } = await until('every attempt has ended', async () => {
      const scraped = await scrape();
      return scraped.values.get(ended) === moved ? scraped : null;
    });
    expect(values.get('waybill_transfers{status="completed"}')).toBe(moved);
    expect(values.get('waybill_queue_depth')).toBe(0);
    expect(values.get('waybill_moved_bytes_total')).toBe(moved * FILE_BYTES);
    expect(values.get('waybill_attempt_duration_seconds_sum{end="completed"}')).toBeGreaterThan(0);
    expect(values.get('waybill_queue_duration_seconds_count')).toBe(moved);
    expect(values.get('waybill_queue_duration_seconds_sum')).toBeGreaterThan(0);
    expect(values.get('waybill_leases_lost_total')).toBe(0);
    for (const side of ['source', 'destination']) {
      expect(
        values.get(`waybill_open_connections{endpoint="server",side="${side}"}`),
      ).toBeGreaterThan(0);
    }
    const lags = [...values.keys()].filter((name) =>
      name.startsWith('waybill_consumer_lag_positions'),
    );
    const consumers = [
      'audit',
      'batches',
      'catalog',
      'dispatch',
      'flows',
      'proof',
      'transfer_search',
      'transfers',
    ];
    expect(lags).toEqual(
      consumers.map((consumer) => `waybill_consumer_lag_positions{consumer="${consumer}"}`),
    );
    for (const lag of lags) expect(values.get(lag)).toBeGreaterThanOrEqual(0);
    const described = [...text.matchAll(/^# HELP (\S+) \S/gm)].map(([, name]) => name);
    expect(described).toEqual(
      expect.arrayContaining([
        'waybill_attempt_duration_seconds',
        'waybill_consumer_lag_positions',
        'waybill_leases_lost_total',
        'waybill_moved_bytes_total',
        'waybill_open_connections',
        'waybill_queue_depth',
        'waybill_queue_duration_seconds',
        'waybill_transfers',
      ]),
    );
  });
});

/** By name and labels, as they are written. */
function valuesOf(text: string): Map<string, number> {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [
      line.slice(0, line.lastIndexOf(' ')),
      Number(line.slice(line.lastIndexOf(' ') + 1)),
    ]),
  );
}
