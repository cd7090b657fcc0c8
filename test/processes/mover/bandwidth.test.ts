import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import type { Side } from '../../../src/adapters/files/port.ts';
import { limitBandwidth } from '../../../src/commands/endpoints.ts';
import { saveEndpoint } from '../../../src/commands/save-endpoint.ts';
import { endpointRequest } from '../../../src/contract/endpoints/requests.ts';
import {
  type BandwidthLimits,
  createBandwidthLimits,
} from '../../../src/processes/mover/bandwidth.ts';
import { type ConfiguredEndpoint, findEndpoint } from '../../../src/projections/catalog/queries.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  openTestInstallation,
  submit,
  type TestInstallation,
} from '../../support/service/installation.ts';
import { type RunningRoles, startDispatch } from '../../support/service/roles.ts';
import { until } from '../../support/service/transfers.ts';

const LIMIT = 600_000;

describeWithPostgres('the bandwidth limits of a mover', () => {
  let installation: TestInstallation;
  let dispatch: RunningRoles;
  let limits: BandwidthLimits;
  /** The rates that were set last, by endpoint and side. */
  let rates: Record<string, number | null>;
  const endpoints = {} as Record<'limited' | 'free', ConfiguredEndpoint>;
  const warn = vi.fn();
  const unused = () => undefined;

  beforeAll(async () => {
    installation = await openTestInstallation();
    dispatch = startDispatch(installation);
    const sftp = { protocol: 'sftp', host: '127.0.0.1', port: 1, username: 'u', password: 'p' };
    for (const name of ['limited', 'free'] as const) {
      const request = endpointRequest.parse({ ...sftp, name });
      const { endpointId } = await saveEndpoint(installation.commands, request, CAUSE);
      endpoints[name] = (await findEndpoint(installation, endpointId)) as ConfiguredEndpoint;
    }
  });
  afterAll(async () => {
    await dispatch?.stop();
    await installation?.close();
  });
  beforeEach(() => {
    warn.mockClear();
    rates = {};
    limits = limitsOf('own', installation.sql);
  });

  function limitsOf(processId: string, sql: TestInstallation['sql']): BandwidthLimits {
    return createBandwidthLimits({
      sql,
      processId,
      logger: { warn },
      setRate(side, endpointId, rate) {
        const { name } = Object.values(endpoints).find(
          ({ endpoint_id }) => endpoint_id === endpointId,
        ) as ConfiguredEndpoint;
        rates[`${name} ${side}`] = rate;
      },
    });
  }

  async function limit(bytes_per_second: number | null): Promise<void> {
    const { endpoint_id } = endpoints.limited;
    const bandwidth = { bytes_per_second, windows: [] };
    await limitBandwidth(installation.commands, endpoint_id, bandwidth, CAUSE);
    endpoints.limited = (await findEndpoint(installation, endpoint_id)) as ConfiguredEndpoint;
  }

  const use = (source: 'limited' | 'free', destination: 'limited' | 'free', onLimit = unused) =>
    limits.use({ source: endpoints[source], destination: endpoints[destination] }, onLimit);

  /** A transfer that another process moves; its lease ends in so many seconds. */
  async function moveElsewhere(uris: [string, string], seconds: number): Promise<void> {
    const id = await submit(installation, ...uris);
    await until('its job', async () => {
      const [job] = await installation.sql`
        update work.transfer_jobs
           set claim_id = 'clm_other', claimed_by = 'other',
               lease_until = now() + ${seconds} * interval '1 second'
         where transfer_id = ${id} returning transfer_id`;
      return job;
    });
  }

  test('nothing is set for endpoints without a limit', async () => {
    await limit(null);
    const using = use('limited', 'free');
    await limits.refresh();
    expect(rates).toEqual({});
    expect(using.limited()).toBe(false);
    expect(limits.rates()).toEqual([]);
  });

  test('the transfers of both sides divide a limit', async () => {
    await limit(LIMIT);
    const first = use('limited', 'free');
    expect(rates).toEqual({ 'limited source': LIMIT });
    expect(first.limited()).toBe(true);
    const second = use('limited', 'free');
    expect(rates).toEqual({ 'limited source': LIMIT });
    const third = use('free', 'limited');
    expect(rates).toEqual({
      'limited source': (LIMIT * 2) / 3,
      'limited destination': LIMIT / 3,
    });
    expect(limits.rates()).toEqual([
      { endpoint: 'limited', side: 'source' satisfies Side, rate: (LIMIT * 2) / 3 },
      { endpoint: 'limited', side: 'destination' satisfies Side, rate: LIMIT / 3 },
    ]);
    third.end();
    expect(rates['limited source']).toBe(LIMIT);
    first.end();
    second.end();
    expect(limits.rates()).toEqual([]);
  });

  test('a change is learnt, and the files that move hear of its begin once', async () => {
    await limit(null);
    const heard = vi.fn();
    const using = use('limited', 'free', heard);
    await limit(LIMIT);
    expect(using.limited()).toBe(false);
    await limits.refresh();
    await limits.refresh();
    expect(rates).toEqual({ 'limited source': LIMIT });
    expect(heard).toHaveBeenCalledTimes(1);
    await limit(null);
    await limits.refresh();
    expect(rates).toEqual({ 'limited source': null });
    expect(using.limited()).toBe(false);
  });

  test('a limit that was removed while no file moved is removed for the next one', async () => {
    await limit(LIMIT);
    use('limited', 'free').end();
    await limit(null);
    use('limited', 'free');
    expect(rates).toEqual({ 'limited source': null });
  });

  test('the transfers of other processes have their shares until their leases expire', async () => {
    await limit(LIMIT);
    use('limited', 'free');
    await moveElsewhere(['sftp://limited/a', 'sftp://free/a'], 3_600);
    await moveElsewhere(['sftp://limited/b', 'sftp://limited/c'], 3_600);
    await moveElsewhere(['sftp://limited/d', 'sftp://free/d'], -1);
    await moveElsewhere(['sftp://free/e', 'sftp://free/f'], 3_600);
    await limits.refresh();
    // One that reads there, and one that reads and writes there.
    expect(rates).toEqual({ 'limited source': LIMIT / 4 });
  });

  test('the last known limit stays while Postgres does not answer', async () => {
    await limit(LIMIT);
    const failing: unknown = () => {
      const query = Promise.reject(new Error('gone'));
      // A fragment of a statement is not awaited.
      query.catch(unused);
      return query;
    };
    limits = limitsOf('own', failing as TestInstallation['sql']);
    const using = use('limited', 'free');
    rates = {};
    await limits.refresh();
    expect(warn).toHaveBeenCalled();
    expect(rates).toEqual({ 'limited source': LIMIT });
    expect(using.limited()).toBe(true);
  });
});
