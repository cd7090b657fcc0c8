import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { signatureHeaders, signingKeys } from '../../src/adapters/webhooks/signature.ts';
import { newId, nextEventId } from '../../src/domain/ids.ts';
import { whyNo } from '../support/programs/why-no.ts';
import { written } from '../support/service/cli.ts';
import { until } from '../support/service/transfers.ts';

const RECEIVERS = join(import.meta.dirname, '..', '..', 'docs', 'receivers');
const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=';

describe.each([
  { program: process.execPath, file: 'receiver.mjs' },
  { program: 'python3', file: 'receiver.py' },
])('docs/receivers/$file', ({ program, file }) => {
  const reason = whyNo(program);
  let child: ChildProcess;
  let url: string;
  let output = '';

  beforeAll(async () => {
    if (reason !== null) return;
    child = spawn(program, [join(RECEIVERS, file)], {
      env: { PATH: process.env.PATH, HOME: process.env.HOME, WEBHOOK_SECRET: SECRET, PORT: '0' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    child.stdout!.on('data', (text) => {
      output += text;
    });
    [, url] = (await written(child.stdout!, /Listening at (\S+)/)) as unknown as [string, string];
  });
  afterAll(async () => {
    if (!child || child.exitCode !== null) return;
    child.kill();
    await once(child, 'exit');
  });

  const lines = () => output.trim().split('\n').slice(1);
  const bodyOf = (id: string, transfer_id: string) =>
    JSON.stringify({
      id,
      type: 'transfer.failed',
      created_at: '2026-01-31T09:30:00.000Z',
      data: { transfer_id, file_name: 'Bücher, übrig.csv' },
    });
  const signed = (body: string, secret = SECRET) =>
    signatureHeaders({ current: signingKeys(secret), previous: null }, 'evt', 1_769_851_800, body);

  async function post(body: string | Buffer, headers: Record<string, string>): Promise<number> {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
    });
    await response.arrayBuffer();
    return response.status;
  }

  it('accepts a signed delivery once', async (ctx) => {
    if (reason !== null) return ctx.skip(reason);
    const [id, transfer] = [newId('evt'), newId('txr')];
    const body = bodyOf(id, transfer);
    expect(await post(body, signed(body))).toBe(200);
    expect(await post(body, signed(body))).toBe(200);
    const other = bodyOf(newId('evt'), newId('txr'));
    expect(await post(other, signed(other))).toBe(200);
    await until('the other event is handled', () =>
      lines().some((line) => line.includes(JSON.parse(other).id)),
    );
    expect(lines().filter((line) => line === `${id} transfer.failed ${transfer}`)).toHaveLength(1);
  });

  it('recognizes late events by their ids', async (ctx) => {
    if (reason !== null) return ctx.skip(reason);
    const transfer = newId('txr');
    const older = newId('evt');
    const newer = nextEventId(older, Date.now());
    for (const id of [newer, older]) {
      const body = bodyOf(id, transfer);
      expect(await post(body, signed(body))).toBe(200);
    }
    await until(
      'both are handled',
      () => lines().filter((line) => line.includes(transfer)).length === 2,
    );
    expect(lines().slice(-2)).toEqual([
      `${newer} transfer.failed ${transfer}`,
      `${older} transfer.failed ${transfer} (late: a newer event was handled)`,
    ]);
  });

  it('rejects a delivery without a valid signature, and continues', async (ctx) => {
    if (reason !== null) return ctx.skip(reason);
    const body = bodyOf(newId('evt'), newId('txr'));
    const before = lines().length;
    const right = signed(body)['X-Service-Signature'] as string;
    const forged: Record<string, string>[] = [
      {},
      { 'X-Service-Signature': '' },
      { 'X-Service-Signature': 'a'.repeat(64) },
      { 'X-Service-Signature': right.slice(0, -1) },
      { 'X-Service-Signature': `${right}0` },
      { 'X-Service-Signature': '\u00e4'.repeat(64) },
      signed(body, 'another secret'),
      signed(`${body}\n`),
    ];
    for (const headers of forged) expect(await post(body, headers)).toBe(401);
    expect(await post(`${body} `, signed(body))).toBe(401);
    expect(await post(body, signed(body))).toBe(200);
    await until('the signed one is handled', () => lines().length > before);
    expect(lines()).toHaveLength(before + 1);
  });

  it('rejects a body above one mebibyte', async (ctx) => {
    if (reason !== null) return ctx.skip(reason);
    const body = bodyOf(newId('evt'), 'x'.repeat(1 << 20));
    // It may hang up before it has read the whole body.
    expect([413, 'cut']).toContain(await post(body, signed(body)).catch(() => 'cut'));
  });

  it('survives a sender that hangs up', async (ctx) => {
    if (reason !== null) return ctx.skip(reason);
    const body = bodyOf(newId('evt'), newId('txr'));
    const stopping = new AbortController();
    const endless = new ReadableStream({
      start(controller) {
        controller.enqueue(Buffer.from(body));
        setTimeout(() => stopping.abort(), 50);
      },
    });
    const sent = fetch(url, {
      method: 'POST',
      headers: { 'content-length': '100000' },
      body: endless,
      duplex: 'half',
      signal: stopping.signal,
    });
    await expect(sent).rejects.toThrow();
    expect(await post(body, signed(body))).toBe(200);
  });
});
