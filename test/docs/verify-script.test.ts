import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { cancelTransfer, loadTransfer } from '../../src/commands/transfers.ts';
import { type AuditEvent, toAuditEvent } from '../../src/contract/events.ts';
import { readLog } from '../../src/projections/read-log.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { whyNo } from '../support/programs/why-no.ts';
import { LONG } from '../support/run/long.ts';
import {
  CAUSE,
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
} from '../support/service/installation.ts';

const GUIDE = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'auditors.md'), 'utf8');
const SCRIPT = /```python\n(import hashlib, json, sys\n[\s\S]*?)```/.exec(GUIDE)?.[1] as string;

describeWithPostgres('verify.py of docs/auditors.md', () => {
  let installation: TestInstallation;
  let log: AuditEvent[];

  beforeAll(async () => {
    installation = await openTestInstallation();
    const { commands, store } = installation;
    const archive = { name: 'archive', protocol: 's3', bucket: 'archive' };
    const credentials = { access_key_id: 'id', secret_access_key: 'secret' };
    await configureEndpoint(installation, { ...archive, ...credentials });
    // Text that JSON libraries write in different ways
    const id = await submit(installation, 'sftp://from/a.csv', 's3://archive/', {
      metadata: { z: '\u007f"\\/ \u2028', ä: '<🎉&>', '\uffff': 'last', '🎉': 'before it' },
    });
    const loaded = await loadTransfer(commands, 'acc_default', id);
    await cancelTransfer(commands, id, CAUSE, loaded);
    log = [];
    for await (const { events } of readLog(store, { from: null }))
      log.push(...events.map(toAuditEvent));
  });
  afterAll(() => installation?.close());

  function run(events: AuditEvent[]): string {
    const input = events.map((event) => `${JSON.stringify(event)}\n`).join('');
    const { stdout, stderr } = spawnSync('python3', ['-c', SCRIPT], { input, encoding: 'utf8' });
    return stdout + stderr;
  }

  test('takes the whole log, a part of it or one stream', (ctx) => {
    const reason = whyNo('python3');
    if (reason !== null) return ctx.skip(reason);
    expect(run(log)).toBe('4 streams, 0 of them without their first events\n');
    expect(run(log.slice(-1))).toBe('1 streams, 1 of them without their first events\n');
    const transfer = log.filter(({ stream }) => stream === log.at(-1)?.stream);
    expect(transfer).toHaveLength(2);
    expect(run(transfer)).toBe('1 streams, 0 of them without their first events\n');
  });

  test('names what was changed, removed or put first', LONG, (ctx) => {
    const reason = whyNo('python3');
    if (reason !== null) return ctx.skip(reason);
    const { stream } = log.at(-1) as AuditEvent;
    const changed = log.map((event) =>
      event.type === 'transfer.created'
        ? { ...event, data: { ...event.data, priority: 'high' } }
        : event,
    );
    expect(run(changed)).toMatch(`broken: ${stream} revision 1\n`);
    const [created, cancelled] = log.slice(-2) as [AuditEvent, AuditEvent];
    expect(run([created, { ...cancelled, revision: 2 }])).toMatch(`broken: ${stream} revision 2\n`);
    expect(run([{ ...cancelled, revision: 0 }])).toMatch(`broken: ${stream} revision 0\n`);
  });
});
