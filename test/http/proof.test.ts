import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { headOfNote } from '../../src/domain/proof/checkpoint.ts';
import { isSignedBy, type Note, parseNote } from '../../src/domain/proof/note.ts';
import { isConsistent } from '../../src/domain/proof/proofs.ts';
import { verifyReceipt } from '../../src/domain/proof/receipt.ts';
import { rebuildProjection } from '../../src/projections/rebuild/rebuild.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

const BODY = {
  source_uri: 'sftp://files.example.com/out/report.csv',
  destination_uri: 's3://archive/in/',
};

describeWithPostgres('the proofs of the API', () => {
  let api: TestApi;
  let auditor: string;
  beforeAll(async () => {
    api = await startApi();
    auditor = (await api.createKey(['audit:all'])).key;
  });
  afterAll(() => api?.close());

  const create = async () =>
    (await api.ask('POST', '/v1/transfers', { json: BODY })).body.id as string;
  async function createCancelled(): Promise<string> {
    const id = await create();
    expect((await api.ask('DELETE', `/v1/transfers/${id}`)).status).toBe(200);
    return id;
  }
  const sign = () => api.ask('POST', '/v1/checkpoints', { key: auditor });
  const receipt = (id: string, query = '', key = api.key) =>
    api.ask('GET', `/v1/transfers/${id}/receipt${query}`, { key });

  test('begin with no checkpoint', async () => {
    const { body } = await api.ask('GET', '/v1/checkpoints');
    expect(body).toEqual({
      data: [],
      pagination: { total: 0, limit: 25, offset: 0, has_more: false },
    });
    expect((await api.ask('GET', '/v1/checkpoints/latest')).status).toBe(404);
  });

  test('have checkpoints that their key signs, on demand', async () => {
    await createCancelled();
    const signed = await sign();
    expect(signed.status).toBe(200);
    expect(await sign()).toMatchObject({ status: 200, body: signed.body });
    await createCancelled();
    const next = await sign();

    const keys = await api.ask('GET', '/v1/log/keys', { key: null });
    expect(keys).toMatchObject({ status: 200, body: { data: [{ key_id: next.body.key_id }] } });
    const publicKey = createPublicKey(keys.body.data[0].public_key);
    for (const { body } of [signed, next]) {
      expect(isSignedBy(parseNote(body.note) as Note, publicKey)).toBe(true);
      expect(headOfNote(body.note)).toMatchObject({ origin: keys.body.origin, size: body.size });
    }

    const list = await api.ask('GET', '/v1/checkpoints?limit=1');
    expect(list.body.data).toEqual([next.body]);
    expect(list.body.pagination).toEqual({ total: 2, limit: 1, offset: 0, has_more: true });
    expect((await api.ask('GET', '/v1/checkpoints/latest')).body).toEqual(next.body);
    const older = await api.ask('GET', `/v1/checkpoints/${signed.body.size}`);
    expect(older.body).toEqual(signed.body);
    const unknown = await api.ask('GET', `/v1/checkpoints/${signed.body.size + 1}`);
    expect(unknown.status).toBe(404);
    expect(unknown.body.detail).toContain(`the size ${signed.body.size + 1}:`);
    for (const size of [0, 'none', '%E2%80%AE']) {
      const { status, body } = await api.ask('GET', `/v1/checkpoints/${size}`);
      expect(status).toBe(404);
      expect(body.detail).toMatch(/^The size of a checkpoint is a whole number above 0: /);
    }
  });

  test('have one checkpoint for an Idempotency-Key', async () => {
    const signWith = (key: string) =>
      api.ask('POST', '/v1/checkpoints', { key: auditor, headers: { 'Idempotency-Key': key } });
    const first = await signWith('sign-1');
    expect(first.status).toBe(200);
    await createCancelled();
    const again = await signWith('sign-1');
    expect(again.body).toEqual(first.body);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect((await signWith('k'.repeat(256))).status).toBe(400);
  });

  test('show that a checkpoint extends an older one', async () => {
    const older = (await sign()).body;
    await createCancelled();
    const newer = (await sign()).body;
    const path = `/v1/checkpoints/${newer.size}/consistency`;
    const { status, body } = await api.ask('GET', `${path}?from=${older.size}`);
    expect([status, body.from, body.size]).toEqual([200, older.size, newer.size]);
    const head = (checkpoint: { note: string }) => {
      const found = headOfNote(checkpoint.note);
      if (!found) throw new Error('no checkpoint');
      return found;
    };
    const proof = body.proof.map((hash: string) => Buffer.from(hash, 'hex'));
    expect(isConsistent(head(older), head(newer), proof)).toBe(true);
    expect(await api.ask('GET', `${path}?from=${newer.size + 1}`)).toMatchObject({
      status: 400,
      body: { code: 'invalid_parameter', errors: [{ field: 'from', code: 'invalid_parameter' }] },
    });
    expect(await api.ask('GET', `${path}?from=0`)).toMatchObject({
      status: 400,
      body: { detail: 'from: must be a whole number above 0' },
    });
    expect((await api.ask('GET', path)).status).toBe(400);
  });

  test('are for auditors', async () => {
    const { key } = await api.createKey(['transfers:write']);
    expect((await api.ask('GET', '/v1/checkpoints', { key })).status).toBe(403);
    expect((await api.ask('POST', '/v1/checkpoints')).status).toBe(403);
    expect((await api.ask('GET', '/v1/checkpoints', { key: null })).status).toBe(401);
  });

  test('have a receipt of an ended transfer, the same each time', async () => {
    const id = await createCancelled();
    expect(await receipt(id)).toMatchObject({ status: 409, body: { code: 'receipt_not_ready' } });
    expect((await receipt(id)).headers.get('retry-after')).toMatch(/^\d+$/);
    await sign();
    const first = await receipt(id);
    expect(first.status).toBe(200);
    await createCancelled();
    await sign();
    expect((await receipt(id)).body).toEqual(first.body);

    const publicKey = createPublicKey(first.body.public_key);
    const verdict = verifyReceipt(first.body, publicKey);
    expect(verdict).toMatchObject({ ok: true });
    const { body } = await api.ask('GET', `/v1/transfers/${id}/events`);
    expect(verdict.ok && verdict.events.map((event) => event.id)).toEqual(
      body.data.map((event: { id: string }) => event.id),
    );
  });

  test('have no receipt of a transfer that has not ended', async () => {
    expect(await receipt(await create())).toMatchObject({
      status: 409,
      body: { code: 'receipt_not_ready', detail: expect.stringContaining('has not ended') },
    });
  });

  test('have no receipt for another account', async () => {
    const id = await createCancelled();
    const { key } = await api.createKey(['transfers:read'], { account: 'acc_other' });
    expect((await receipt(id, '', key)).status).toBe(404);
    expect((await receipt('txr_none')).status).toBe(404);
  });

  test('say that the log was changed', async () => {
    const id = await createCancelled();
    await sign();
    const { sql } = api.installation;
    await sql`create table kept as select * from read.proof_tiles`;
    await sql`
      update read.proof_tiles set hashes = decode(repeat('00', length(hashes)), 'hex')
      where level = 0`;
    const answer = await receipt(id);
    await sql`
      update read.proof_tiles t set hashes = k.hashes from kept k
      where (t.level, t.tile) = (k.level, k.tile)`;
    expect(answer).toMatchObject({
      status: 500,
      body: { detail: expect.stringMatching(/evidence/) },
    });
  });

  test('do not leave with a proof or a key that was changed', async () => {
    const id = await createCancelled();
    const { size } = (await sign()).body;
    const { installation } = api;
    const { sql } = installation;
    const said = { status: 500, body: { detail: expect.stringMatching(/would prove nothing/) } };
    await sql`
      update read.proof_tiles set hashes = set_byte(hashes, 3, 255 - get_byte(hashes, 3))
       where level = 0 and tile = 0`;
    expect(await receipt(id)).toMatchObject(said);
    const consistency = `/v1/checkpoints/${size}/consistency?from=1`;
    expect(await api.ask('GET', consistency, { key: auditor })).toMatchObject({
      status: 500,
      body: { detail: expect.stringMatching(/do not prove/) },
    });
    await rebuildProjection(installation, 'proof', () => undefined);
    expect((await api.ask('GET', consistency, { key: auditor })).status).toBe(200);
    const { publicKey } = generateKeyPairSync('ed25519');
    for (const key of ['no key', publicKey.export({ type: 'spki', format: 'pem' }).toString()]) {
      await sql`update read.proof_keys set public_key = ${key}`;
      expect(await receipt(id)).toMatchObject(said);
    }
    await rebuildProjection(installation, 'proof', () => undefined);
    expect((await receipt(id)).status).toBe(200);
  });

  test('say what to do about a tree that lacks a part', async () => {
    const id = await createCancelled();
    await createCancelled();
    const { size } = (await sign()).body;
    const { installation } = api;
    await installation.sql`
      update read.proof_tiles set hashes = substr(hashes, 1, 32 * ${size - 1}::integer)
       where level = 0`;
    for (const answer of [
      await receipt(id),
      await api.ask('GET', `/v1/checkpoints/${size}/consistency?from=1`, { key: auditor }),
    ])
      expect(answer).toMatchObject({
        status: 500,
        body: { detail: expect.stringMatching(/waybill projections rebuild proof/) },
      });
    await rebuildProjection(installation, 'proof', () => undefined);
    expect((await receipt(id)).status).toBe(200);
    await installation.sql`create table kept_keys as select * from read.proof_keys`;
    await installation.sql`delete from read.proof_keys`;
    expect((await receipt(id)).body.detail).toContain('waybill projections rebuild proof');
    await installation.sql`insert into read.proof_keys select * from kept_keys`;
  });

  test('wait for a receipt on request', async () => {
    const id = await createCancelled();
    const waiting = receipt(id, '?wait=60');
    await sign();
    expect((await waiting).status).toBe(200);
    expect(await receipt(id, '?wait=61000')).toMatchObject({
      status: 400,
      body: { code: 'invalid_parameter' },
    });
  });
});
