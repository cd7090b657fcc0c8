import pino from 'pino';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { type FileEndpoint, FileError } from '../../../src/adapters/files/port.ts';
import { newId } from '../../../src/domain/ids.ts';
import { type Again, afterFailure, type Settled } from '../../../src/processes/after/failures.ts';
import type { Completed } from '../../../src/processes/after/steps.ts';
import { type ClaimedSteps, claimSteps } from '../../../src/processes/after/table.ts';
import type { ConfiguredEndpoint } from '../../../src/projections/catalog/queries.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { openTestInstallation, type TestInstallation } from '../../support/service/installation.ts';

const DELAYS = [10, 20];
const never = new AbortController().signal;
const stalled = new FileError('timeout', 'commit', '/a.csv: No answer within 60 s');
const refused = new FileError('permission_denied', 'commit', '/a.csv: denied');
const down = new FileError('connection_failed', 'connect', 'Connection refused');

describeWithPostgres('a failed step after a transfer', () => {
  let installation: TestInstallation;
  let claim: ClaimedSteps;
  /** What `restoreSource` of the endpoint does, and how often it was called. */
  let restore: () => Promise<boolean>;
  let restored: number;

  beforeAll(async () => {
    installation = await openTestInstallation();
  });
  beforeEach(async () => {
    const { sql } = installation;
    await sql`delete from work.after_steps`;
    await sql`insert into work.after_steps (transfer_id) values (${newId('txr')})`;
    const room = { answering: 1, unproven: 1, unread: 1, endpoints: [] };
    [claim] = (await claimSteps(sql, room)) as [ClaimedSteps];
    restored = 0;
    restore = async () => true;
  });
  afterAll(() => installation?.close());

  async function failWith(error: FileError, step: 'source' | 'marker' = 'source') {
    const { sql } = installation;
    const restoreSource = () => {
      restored++;
      return restore();
    };
    const endpoint = { restoreSource } as unknown as FileEndpoint;
    const sources = {
      lend: async () => ({ endpoint, release() {} }),
      connections: async () => new Map(),
      closeRemoved: () => undefined,
      announcedHostKeys: async () => [],
      close: async () => {},
    };
    const facts = {
      transfer_id: claim.transferId,
      account_id: 'acc_default',
      source: 'sftp://alpha/a.csv',
      destination: 'sftp://beta/a.csv',
      after: { source: 'delete', destination_marker: '.done' },
    };
    const configured = { endpoint_id: 'end_alpha' } as ConfiguredEndpoint;
    const result: Settled | Again = await afterFailure(
      { sql, durable: sql, logger: pino({ level: 'silent' }), sources, retryDelays: DELAYS },
      {
        transfer: { status: 'completed', facts } as Completed,
        step,
        file: { configured, path: '/a.csv' },
        claim,
      },
      error,
      never,
    );
    if ('claim' in result) claim = result.claim;
    return 'claim' in result ? result.delayMs : result.event(new Date().toISOString());
  }

  const kept = (code: string, message: unknown = expect.any(String)) =>
    expect.objectContaining({
      type: 'transfer.source_kept',
      data: expect.objectContaining({ reason: { code, message } }),
    });

  it('gives the source its name back before it is given up', async () => {
    expect([await failWith(stalled), await failWith(stalled)]).toEqual(DELAYS);
    expect(restored).toBe(0);
    expect(await failWith(stalled)).toEqual(kept('timeout', stalled.message));
    expect(restored).toBe(1);
  });

  it('is retried for days while the server does not answer to that', async () => {
    for (const _delay of DELAYS) await failWith(stalled);
    for (const error of [down, stalled]) {
      restore = () => Promise.reject(error);
      const delayMs = await failWith(stalled);
      expect(delayMs).toBe(60_000 * 2 ** (claim.tries - 1));
    }
    claim = { ...claim, tries: 25 };
    const message = expect.stringContaining(`/.a.csv.${claim.transferId}.source.held`);
    expect(await failWith(stalled)).toEqual(kept('timeout', message));
  });

  it('is retried if no file has either name: the next try finds out what became of it', async () => {
    for (const _delay of DELAYS) await failWith(stalled);
    restore = async () => false;
    expect(await failWith(stalled)).toBe(60_000);
  });

  it('names the hidden file if the server refuses to rename it', async () => {
    for (const _delay of DELAYS) await failWith(stalled);
    restore = () => Promise.reject(refused);
    const message = expect.stringContaining(`/.a.csv.${claim.transferId}.source.held`);
    expect(await failWith(stalled)).toEqual(kept('timeout', message));
  });

  it('changes nothing once its claim is lost', async () => {
    for (const _delay of DELAYS) await failWith(stalled);
    await installation.sql`update work.after_steps set claim_id = 'another'`;
    expect(await failWith(stalled)).toBe(0);
    expect(restored).toBe(0);
  });

  it('of a server that was down has changed no source, and asks nothing of it', async () => {
    expect(await failWith(down)).toBe(60_000);
    expect(claim.begun).toBe(false);
    await failWith(stalled);
    expect(claim.begun).toBe(true);
    claim = { ...claim, begun: false, tries: 25 };
    expect(await failWith(down)).toEqual(kept('connection_failed', down.message));
    expect(restored).toBe(0);
  });

  it('that wrote a marker asks nothing of the source', async () => {
    claim = { ...claim, refusals: DELAYS.length };
    expect(await failWith(refused, 'marker')).toMatchObject({ type: 'transfer.marker_failed' });
    expect(restored).toBe(0);
  });
});
