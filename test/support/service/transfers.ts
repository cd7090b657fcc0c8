import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { describe } from 'vitest';
import type { StoredEvent } from '../../../src/domain/events/event.ts';
import { streamName } from '../../../src/domain/events/streams.ts';
import type { TransferError } from '../../../src/domain/transfers/errors.ts';
import type { Transfer, TransferEvent } from '../../../src/domain/transfers/transfer.ts';
import type { Installation } from '../../../src/installation.ts';
import { dispatchConsumer } from '../../../src/processes/dispatch/consumer.ts';
import { isCaughtUp } from '../../../src/projections/read-to-end.ts';
import { whyNoSftpServer } from '../file-servers/sftp/server.ts';
import { describeWithPostgres } from '../postgres/test-database.ts';
import { transferInLog } from './installation.ts';
import { createPauses } from './pauses.ts';

/**
 * `describe` for tests that move files between real SFTP servers. Skips them, with the reason in
 * their name, if no server can run.
 */
export async function describeTransfers(name: string, tests: () => void): Promise<void> {
  const reason = await whyNoSftpServer();
  if (reason === null) describeWithPostgres(name, tests);
  else describe.skip(`${name} (skipped, no SFTP server: ${reason})`, tests);
}

/** The events of a transfer, oldest first. */
export async function historyOf(
  installation: Installation,
  id: string,
): Promise<(StoredEvent & TransferEvent)[]> {
  return (await installation.store.read(streamName('transfer', id))) as (StoredEvent &
    TransferEvent)[];
}

/** Summarizes the history: the types without their prefix, and the reason of `queued`. */
export async function storyOf(installation: Installation, id: string): Promise<string[]> {
  const events = await historyOf(installation, id);
  return events.map((event) =>
    event.type === 'transfer.queued'
      ? `queued: ${event.data.reason}`
      : event.type.slice('transfer.'.length),
  );
}

/** The reason of each retry. */
export async function retriesOf(installation: Installation, id: string): Promise<TransferError[]> {
  const events = await historyOf(installation, id);
  return events.flatMap(({ type, data }) =>
    type === 'transfer.queued' && data.reason === 'retry' ? [data.error] : [],
  );
}

/** Lowercase hex SHA-256 of a file of any size. */
export async function sha256Of(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file, { highWaterMark: 1 << 20 }), hash);
  return hash.digest('hex');
}

/** Names of all files in and below a folder, including hidden ones. */
export async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}

/**
 * Waits until `condition` returns something other than null, undefined or false. Fails `seconds`
 * after `progress` last changed: how long many steps take depends on the machine.
 */
export async function until<T>(
  what: string,
  condition: () => T | Promise<T>,
  seconds = 60,
  progress: () => unknown = () => undefined,
): Promise<NonNullable<T>> {
  const pause = createPauses();
  let reached = await progress();
  for (let changed = Date.now(); ; await pause()) {
    const found = await condition();
    if (found !== null && found !== undefined && found !== false) return found;
    const now = await progress();
    if (now !== reached) [reached, changed] = [now, Date.now()];
    else if (Date.now() > changed + seconds * 1_000)
      throw new Error(`Not within ${seconds} s: ${what} (progress: ${now ?? 'not measured'})`);
  }
}

/** Waits until a transfer of a big file has ended. Fails `seconds` after its bytes last moved. */
export function untilEnded(
  installation: Installation,
  id: string,
  seconds = 300,
): Promise<Extract<Transfer, { status: 'completed' | 'failed' }>> {
  return until(
    `the end of ${id}`,
    async () => {
      const found = await transferInLog(installation, id);
      return found.status === 'completed' || found.status === 'failed' ? found : null;
    },
    seconds,
    async () => {
      const [row] = await installation.sql<{ transferred_bytes: bigint }[]>`
        select transferred_bytes from work.transfer_jobs where transfer_id = ${id}`;
      return row?.transferred_bytes;
    },
  );
}

/** Chunks of a transfer at its destination, as its mover last saved them. */
export async function savedChunks({ sql }: Installation, id: string): Promise<number> {
  const [row] = await sql<{ sums: string | null }[]>`
    select resume_record->>'sums' as sums from work.transfer_jobs where transfer_id = ${id}`;
  return Buffer.from(row?.sums ?? '', 'base64').length / 4;
}

/**
 * Waits until the clean-up of all ended transfers, or of the given one, is done. Their servers must
 * run until then. A clean-up that fails, as on a connection that a test cuts, is due again soon,
 * and not a minute later.
 */
export async function untilCleanedUp(installation: Installation, id?: string): Promise<void> {
  const { sql, store } = installation;
  const left = id === undefined ? sql`true` : sql`transfer_id = ${id}`;
  const end = await store.head();
  // A transfer has no clean-up before the consumer has its end.
  await until('the consumer has the ends of transfers', () =>
    isCaughtUp(installation, dispatchConsumer, { end }),
  );
  await until('the clean-up of ended transfers', async () => {
    await sql`
      update work.cleanups set due_at = now()
       where ${left} and tries > 0 and due_at < now() + interval '1 minute' * power(2, tries - 1)
                                                    - interval '5 seconds'`;
    return (await sql`select from work.cleanups where ${left}`).length === 0;
  });
}

/**
 * Lets the leases of all claims expire now, by Postgres's clock, as half a minute without their
 * movers would.
 */
export async function expireLeases({ sql }: Installation): Promise<void> {
  await sql`
    update work.transfer_jobs set lease_until = now() - interval '1 second'
     where claim_id is not null`;
}
