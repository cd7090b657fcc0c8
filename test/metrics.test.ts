import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createFlow, reserveFlow } from '../src/commands/flows.ts';
import { flowRequest } from '../src/contract/flows/requests.ts';
import { createMetrics, type Metrics } from '../src/metrics.ts';
import { saveLook } from '../src/processes/flows/table.ts';
import { startApi, type TestApi } from './support/http/api.ts';
import { describeWithPostgres } from './support/postgres/test-database.ts';
import { CAUSE } from './support/service/installation.ts';

const DOCUMENT = readFileSync(new URL('../docs/operators.md', import.meta.url), 'utf8');
const FUNCTIONS =
  /^(sum|max|by|and|increase|rate|deriv|min_over_time|up|or|unless|consumer|flow|name)$/;

/** The expressions of the alert rules in the documentation. */
function alertExpressions(): string[] {
  const [, rules = ''] = /```yaml\n(groups:\n.*?)```/s.exec(DOCUMENT) ?? [];
  return [...rules.matchAll(/expr: (?:\|\n((?: {10}.+\n)+)|(.+))/g)].map(
    ([, block, line]) => block ?? line ?? '',
  );
}

describeWithPostgres('the metrics', () => {
  let api: TestApi;
  let metrics: Metrics;
  let text: string;
  beforeAll(async () => {
    api = await startApi();
    metrics = createMetrics(api.installation);
    const server = await api.startServer({ metrics: metrics.registry });
    text = (await server.ask('GET', '/metrics')).body;
  });
  afterAll(() => api?.close());

  test.each([
    ...['pending', 'queued', 'in_progress', 'completed', 'failed', 'cancelled'].map(
      (status) => `waybill_transfers{status="${status}"}`,
    ),
    ...[
      'completed',
      'retried',
      'failed',
      'released',
      'aborted',
      'lease_lost',
      'not_begun',
      'not_recorded',
    ].map((end) => `waybill_attempt_duration_seconds_count{end="${end}"}`),
    ...['delivered', 'refused', 'error'].map(
      (end) => `waybill_webhook_attempt_duration_seconds_count{end="${end}"}`,
    ),
    ...['delivered', 'failed'].map((end) => `waybill_webhook_deliveries_total{end="${end}"}`),
    ...['2xx', '3xx', '4xx', '5xx'].map(
      (status) => `waybill_http_answers_total{status="${status}"}`,
    ),
    'waybill_moved_bytes_total',
    'waybill_leases_lost_total',
  ])('include %s from the start', (series) => {
    expect(text.split('\n')).toContain(`${series} 0`);
  });

  test('describe the process and its event loop', () => {
    for (const name of [
      'process_cpu_seconds_total',
      'process_resident_memory_bytes',
      'process_start_time_seconds',
      'nodejs_eventloop_lag_p99_seconds',
      'nodejs_heap_size_used_bytes',
    ])
      expect(text).toMatch(new RegExp(`^${name} [\\d.e+-]+$`, 'm'));
  });

  test('count answers by class', async () => {
    const server = await api.startServer({ metrics: metrics.registry });
    await server.ask('GET', '/v1/nothing');
    expect((await server.ask('GET', '/metrics')).body).toContain(
      'waybill_http_answers_total{status="4xx"} 1',
    );
  });

  test('show the last listing of a flow from the first scrape on', async () => {
    const { commands, sql } = api.installation;
    const request = flowRequest.parse({
      name: 'orders',
      source: { uri: 's3://archive/in/' },
      destination_uri: 's3://archive/out/',
    });
    const flow = await createFlow(commands, 'acc_default', request, CAUSE, reserveFlow());
    await commands.waitFor('flows', flow.position);
    const { flow_id } = flow.state;
    const at = '2026-01-31T09:30:00Z';
    await saveLook(sql, flow_id, {
      began_at: at,
      succeeded_at: at,
      waiting: 3,
      look_again_at: null,
    });
    const lines = (await createMetrics(api.installation).registry.metrics()).split('\n');
    const seconds = Date.parse(at) / 1_000;
    expect(lines).toContain(`waybill_flow_overdue_seconds{flow="${flow_id}",name="orders"} 0`);
    for (const [name, value] of [
      ['last_run_timestamp_seconds', seconds],
      ['last_success_timestamp_seconds', seconds],
      ['waiting_files', 3],
    ])
      expect(lines).toContain(`waybill_flow_${name}{flow="${flow_id}",name="orders"} ${value}`);
  });

  test('show for how long a flow has been due and no process ran it', async () => {
    const { commands, sql } = api.installation;
    const request = flowRequest.parse({
      name: 'late',
      source: { uri: 's3://archive/late/' },
      trigger: { every: '5m' },
      destination_uri: 's3://archive/out/',
    });
    const flow = await createFlow(commands, 'acc_default', request, CAUSE, reserveFlow());
    await commands.waitFor('flows', flow.position);
    const { flow_id, created_at } = flow.state;
    await expect
      .poll(async () => {
        const text = await createMetrics(api.installation).registry.metrics();
        const [, late] = new RegExp(`overdue_seconds{flow="${flow_id}".*} (.*)`).exec(text) ?? [];
        return Math.abs(Number(late) - (Date.now() - Date.parse(created_at)) / 1_000);
      })
      .toBeLessThan(1);
    await sql`update read.flows set status = 'paused', busy = false,
      state = jsonb_set(state, '{status}', '"paused"') where flow_id = ${flow_id}`;
    expect(await createMetrics(api.installation).registry.metrics()).not.toMatch(
      new RegExp(`overdue_seconds{flow="${flow_id}"`),
    );
  });

  test('include every metric of the documented alert rules', () => {
    const expressions = alertExpressions();
    expect(expressions).toHaveLength(14);
    const known = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name as string);
    for (const expression of expressions) {
      const bare = expression.replace(/\{[^}]*\}|\[[^\]]*\]/g, '');
      const names = bare.match(/[a-z_][a-z_0-9]*/gi)?.filter((word) => !FUNCTIONS.test(word)) ?? [];
      if (!/^up\b/.test(expression)) expect(names, expression).not.toEqual([]);
      for (const name of names)
        expect([...known, ...known.map((base) => `${base}_count`)], expression).toContain(name);
      for (const [, name, label, value] of expression.matchAll(/(waybill_\w+)\{(\w+)="(\w+)"\}/g))
        expect(text, expression).toContain(`${name}{${label}="${value}"}`);
    }
  });
});
