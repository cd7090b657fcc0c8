import { afterAll, beforeAll, expect, it } from 'vitest';
import { newId } from '../../src/domain/ids.ts';
import { saveLook } from '../../src/processes/flows/table.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { configureEndpoint } from '../support/service/installation.ts';

describeWithPostgres('flows', () => {
  let api: TestApi;
  let key: string;

  beforeAll(async () => {
    api = await startApi();
    ({ key } = await api.createKey(['flows:write']));
    // The same bucket by another endpoint.
    const account = { access_key_id: 'another', secret_access_key: 'secret' };
    const deeper = { name: 'deeper', bucket: 'archive', prefix: 'out/copy/' };
    await configureEndpoint(api.installation, { protocol: 's3', ...account, ...deeper });
  });
  afterAll(() => api.close());

  const REQUEST = {
    name: 'orders',
    source: { uri: 's3://archive/out', pattern: '*.csv' },
    trigger: { cron: '0 6 * * 1-5', time_zone: 'Europe/Berlin' },
    destination_uri: 's3://archive/in/{date:yyyy-MM-dd}/',
  };
  const ask = (method: string, path: string, json?: object) =>
    api.ask(method, `/v1/flows${path}`, { key, ...(json && { json }) });
  async function create(more: object = {}): Promise<string> {
    const { status, body } = await ask('POST', '', { ...REQUEST, ...more });
    expect(status).toBe(201);
    return body.id;
  }

  it('are created with what is left out, and shown', async () => {
    const { status, body, headers } = await ask('POST', '', REQUEST);
    expect(status).toBe(201);
    expect(headers.get('location')).toBe(`/v1/flows/${body.id}`);
    expect(body).toMatchObject({
      id: expect.stringMatching(/^flo_/),
      status: 'active',
      source: { uri: 's3://archive/out/', pattern: '*.csv', exclude: [], recursive: false },
      ready: { unchanged_for: '30s', marker: null },
      trigger: { every: null, cron: '0 6 * * 1-5', time_zone: 'Europe/Berlin' },
      start: 'now',
      last_run_at: null,
      delayed_by: null,
      waiting_files: 0,
      failing: null,
      recent_runs: [],
    });
    expect(new Date(body.next_run_at).getTime()).toBeGreaterThan(Date.now());
    const shown = await ask('GET', `/${body.id}`);
    expect(shown.body).toEqual(body);
    const listed = await ask('GET', '?status=active');
    expect(listed.body.data[0]).toEqual(body);
    expect((await ask('GET', '?status=paused')).body.data).toEqual([]);
  });

  it('are found by words of the name, the folders and the id', async () => {
    const larch = await create({ name: 'Lärche solo%', destination_uri: 's3://archive/larch/' });
    await create({ name: 'Birke solo0', destination_uri: 's3://archive/birch/' });
    for (const [query, total] of [
      ['LÄRCHE', 1],
      ['solo%', 1],
      ['larch archive/out', 1],
      [larch, 1],
      // The random part of an id has no l and no o.
      ['solo', 2],
      ['birch larch', 0],
    ] as const) {
      const { body } = await ask('GET', `?q=${encodeURIComponent(query)}&limit=1`);
      expect(body.pagination, query).toMatchObject({ total, has_more: total > 1 });
      expect(body.data.length).toBe(Math.min(1, total));
    }
    const second = await ask('GET', '?q=solo&limit=1&offset=1');
    expect(second.body.data[0].id).toBe(larch);
    expect((await ask('GET', '?q=solo&status=paused')).body.data).toEqual([]);
    expect((await ask('GET', '?q=%20')).status).toBe(400);
  });

  it.each([
    [{ trigger: { every: '1s' } }, 'trigger.every'],
    [{ trigger: { every: '5m', cron: '* * * * *' } }, 'trigger'],
    [{ trigger: { cron: '* * * *' } }, 'trigger.cron'],
    [{ trigger: { cron: '* * * * *', time_zone: 'Mars/Base' } }, 'trigger.time_zone'],
    [{ ready: {} }, 'ready'],
    [{ ready: { unchanged_for: '5s', marker: '.done' } }, 'ready'],
    [{ ready: { marker: '/done' } }, 'ready.marker'],
    [{ destination_uri: 's3://archive/{file}' }, 'destination_uri'],
    [{ destination_uri: 's3://elsewhere/' }, 'destination_uri'],
    [{ source: { uri: 'sftp://elsewhere/' } }, 'source.uri'],
    [{ name: '' }, 'name'],
    [{ after: 'delete' }, 'after'],
    [{ after: { source: 'burn' } }, 'after.source'],
    [
      {
        source: { uri: 'sftp://files.example.com/out/', recursive: true },
        after: { source: { move_to: 'old/' } },
      },
      'after.source.move_to',
    ],
  ])('are rejected with %j', async (changes, field) => {
    const { status, body } = await ask('POST', '', { ...REQUEST, ...changes });
    expect(status).toBe(400);
    expect(body.errors[0].field).toBe(field);
  });

  const BACKUP = 's3://archive/out/{name}.bak';
  it.each([
    ['its own folder', {}, BACKUP],
    ['names that the pattern takes', { pattern: '*.{csv,bak}' }, BACKUP],
    ['a subfolder that it lists', { recursive: true }, 's3://archive/out/copy/'],
    [
      'subfolders of those that it leaves out',
      { recursive: true, exclude: ['copy/*'] },
      's3://archive/out/copy/',
    ],
    ['a folder of the day', { recursive: true }, 's3://archive/out/{date:yyyy/MM/dd}/{name}'],
    [
      'a folder whose slash is part of the time',
      { recursive: true },
      's3://archive/out/{date:yyyy-MM-dd/}',
    ],
    ['its own bucket by another endpoint', { recursive: true }, 's3://deeper/{name}'],
    ['its own bucket by another URI', { recursive: true }, 's3://ARCHIVE/out/copy/{name}'],
  ])('take nothing that they write into %s', async (_where, source, destination_uri) => {
    const loop = { source: { uri: 's3://archive/out/', ...source }, destination_uri };
    const { status, body } = await ask('POST', '', { ...REQUEST, ...loop });
    expect([status, body.errors[0].field]).toEqual([400, 'destination_uri']);
    const changed = await ask('PATCH', `/${await create()}`, loop);
    expect([changed.status, changed.body.errors[0].field]).toEqual([400, 'destination_uri']);
  });

  it.each([
    [
      'match only names that no transfer can have',
      { source: { uri: 's3://archive/out/', pattern: 'a\tb' } },
      'source.pattern',
      'must not contain control characters',
    ],
    [
      'have a pattern with an open bracket',
      { source: { uri: 's3://archive/out/', pattern: '[a' } },
      'source.pattern',
      'has a [ without a ]: write \\[ for the character itself',
    ],
    [
      'leave out a pattern with an open brace',
      { source: { uri: 's3://archive/out/', exclude: ['*.tmp', '{a'] } },
      'source.exclude[1]',
      'has a { without a }: write \\{ for the character itself',
    ],
    [
      'match only paths that end in a slash',
      { source: { uri: 's3://archive/out/', pattern: 'reports/' } },
      'source.pattern',
      'ends in a slash, which no path of a file does',
    ],
    [
      'match only paths outside of the source',
      { source: { uri: 's3://archive/out/', pattern: '../*.csv', recursive: true } },
      'source.pattern',
      'must not contain . or ..',
    ],
    ['name no path', { destination_uri: 's3://archive' }, 'destination_uri', 'must name a path'],
    [
      'write each file onto itself',
      { destination_uri: 's3://archive/out/' },
      'destination_uri',
      'must not be the source itself',
    ],
    [
      'move each source onto its copy',
      { destination_uri: 's3://archive/out/done/', after: { source: { move_to: 'done/' } } },
      'after.source.move_to',
      'must not be the folder of the destination',
    ],
  ])('are rejected if they %s', async (_what, changes, field, message) => {
    const { status, body } = await ask('POST', '', { ...REQUEST, ...changes });
    expect([status, body.errors[0].field]).toEqual([400, field]);
    expect(body.errors[0].message).toContain(message);
  });

  it('take no marker that they write', async () => {
    const { status, body } = await ask('POST', '', {
      ...REQUEST,
      source: { uri: 's3://archive/out/', pattern: '*.done', exclude: ['*.bak'] },
      destination_uri: BACKUP,
      after: { destination_marker: '.done' },
    });
    expect([status, body.errors[0].field]).toEqual([400, 'after.destination_marker']);
  });

  it.each([
    ['names that the pattern leaves out', { pattern: '*.csv' }, {}],
    ['names that are excluded', { exclude: ['*.bak'] }, {}],
    ['files that have no marker', {}, { ready: { marker: '.done' } }],
    ['a subfolder that they do not list', {}, { destination_uri: 's3://archive/out/copy/' }],
    [
      'a subfolder that is excluded',
      { recursive: true, exclude: ['copy/**'] },
      { destination_uri: 's3://archive/out/copy/' },
    ],
    ['names that no sample shows', { pattern: '[\u{1f600}\u{1f601}]*.csv' }, {}],
    ['the folder beside it', { recursive: true }, { destination_uri: 's3://archive/outer/' }],
  ])('may write to their source %s', async (_what, source, more) => {
    const places = { source: { uri: 's3://archive/out/', ...source }, destination_uri: BACKUP };
    await create({ ...places, ...more });
  });

  it('show since when a run is due, if no process runs it', async () => {
    const [scheduled, asked, skipping] = await Promise.all([
      create({ trigger: { every: '5m' } }),
      create({ trigger: null }),
      create({ trigger: { every: '5m' }, start: 'new_only' }),
    ]);
    const listed = new Date(Date.now() - 3_600_000);
    const look = { succeeded_at: null, waiting: 0, look_again_at: null };
    await saveLook(api.installation.sql, scheduled, { ...look, began_at: listed.toISOString() });
    // The flow is as old as its last listing.
    await api.installation.sql`
      update read.flows set state = jsonb_set(state, '{scheduled_from}', ${`"${listed.toISOString()}"`}::text::jsonb)
       where flow_id = ${scheduled}`;
    const due = new Date(listed.getTime() + 300_000).toISOString();
    expect((await ask('GET', `/${scheduled}`)).body.next_run_at).toBe(due);
    await ask('POST', `/${asked}/runs`);
    const { body } = await ask('GET', `/${asked}`);
    expect(body.next_run_at).toBe(body.recent_runs[0].started_at);
    expect((await ask('GET', `/${skipping}`)).body.next_run_at).toBeNull();
  });

  it('keep the spelling of their folder, by which they know its files', async () => {
    const id = await create();
    for (const uri of ['s3://ARCHIVE/out/', 's3://archive/o%75t/']) {
      const { status, body } = await ask('PATCH', `/${id}`, { source: { uri } });
      expect([status, body.errors[0]]).toMatchObject([
        400,
        { field: 'source.uri', message: expect.stringContaining('s3://archive/out/') },
      ]);
    }
    const source = { uri: 's3://archive/out', pattern: '*.zip' };
    expect((await ask('PATCH', `/${id}`, { source })).body.source).toMatchObject({
      uri: 's3://archive/out/',
      pattern: '*.zip',
    });
    const other = { uri: 's3://archive/other/' };
    expect((await ask('PATCH', `/${id}`, { source: other })).body.source).toMatchObject(other);
  });

  it('are changed, paused, resumed and removed', async () => {
    const id = await create();
    const changed = await ask('PATCH', `/${id}`, { trigger: { every: '5m' }, name: 'other' });
    expect(changed.body).toMatchObject({ name: 'other', trigger: { every: '5m', cron: null } });
    const after = { source: 'delete', destination_marker: '.done' };
    expect((await ask('PATCH', `/${id}`, { after })).body).toMatchObject({ name: 'other', after });
    expect((await ask('PATCH', `/${id}`, { name: 'other' })).body.after).toEqual(after);
    const marker = { destination_marker: '.ok' };
    expect((await ask('PATCH', `/${id}`, { after: marker })).body.after).toEqual({
      source: 'keep',
      ...marker,
    });
    expect((await ask('PATCH', `/${id}`, { after: null })).body.after).toBeNull();
    // A client may send back what it was shown.
    const { ready, trigger } = changed.body;
    const before = (await ask('GET', `/${id}`)).body.updated_at;
    const again = await ask('PATCH', `/${id}`, { ready, trigger, after: null });
    expect(again.body.updated_at).toBe(before);
    const metadata = { order: '4711' };
    expect((await ask('PATCH', `/${id}`, { metadata })).body).toMatchObject({ metadata });
    expect((await ask('PATCH', `/${id}`, { name: 'other' })).body).toMatchObject({ metadata });
    expect((await ask('PATCH', `/${id}`, { metadata: null })).body.metadata).toEqual({});
    expect((await ask('PATCH', `/${id}`, {})).status).toBe(400);
    const paused = await ask('POST', `/${id}/pause`);
    expect(paused.body).toMatchObject({ status: 'paused', next_run_at: null });
    expect((await ask('POST', `/${id}/resume`)).body.status).toBe('active');
    expect((await ask('DELETE', `/${id}`)).body).toMatchObject({ id, status: 'removed' });
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['POST', '/pause'],
      ['POST', '/runs'],
      ['GET', '/runs'],
      ['GET', '/files'],
    ] as const)
      expect((await ask(method, `/${id}${path}`)).body.code).toBe('not_found');
  });

  it.each([
    ['GET', ''],
    ['DELETE', ''],
    ['POST', '/pause'],
    ['POST', '/resume'],
    ['POST', '/runs'],
    ['GET', '/runs'],
    ['GET', '/files'],
  ])('are not found by an id with a NUL: %s %s', async (method, path) => {
    expect(await ask(method, `/flo_%00${path}`)).toMatchObject({
      status: 404,
      body: { code: 'not_found' },
    });
  });

  it('are asked for a run, which is one until it begins', async () => {
    const id = await create({ enabled: false });
    const { status, body } = await ask('POST', `/${id}/runs`);
    expect(status).toBe(202);
    expect((await ask('POST', `/${id}/runs`, {})).body).toEqual(body);
    const runs = await ask('GET', `/${id}/runs`);
    expect(runs.body).toMatchObject({
      data: [{ id: body.id, status: 'requested', reason: 'request', batch_id: null }],
      pagination: { total: 1 },
    });
    expect((await ask('GET', `/${id}/files`)).body).toMatchObject({ data: [] });
  });

  it('show which files have a transfer that left the log', async () => {
    const id = await create({ enabled: false });
    const [left, unseen] = [newId('txr'), newId('txr')];
    const { sql } = api.installation;
    for (const [item, transferId] of [left, unseen].entries())
      await sql`
        insert into read.flow_files
          (flow_id, file_key, source_uri, version, run_id, item, transfer_id, attempts, taken_at,
           position)
        values (${id}, ${transferId}, 's3://archive/out/a.csv', '1', ${newId('run')}, ${item},
                ${transferId}, 1, now(), 1)`;
    await sql`insert into read.retained_transfers values (${left}, 'acc_default', 0, 1)`;
    expect((await ask('GET', `/${id}/files`)).body.data).toMatchObject([
      { transfer_id: unseen, status: 'pending' },
      { transfer_id: left, status: 'removed' },
    ]);
  });

  it('are created once for an Idempotency-Key', async () => {
    const headers = { 'Idempotency-Key': 'flow-1' };
    const [first, second] = [
      await api.ask('POST', '/v1/flows', { key, json: REQUEST, headers }),
      await api.ask('POST', '/v1/flows', { key, json: REQUEST, headers }),
    ];
    expect(second.body).toEqual(first.body);
    expect(second.headers.get('idempotent-replayed')).toBe('true');
  });

  it.each([
    ['/runs', { status: 'requested' }],
    ['/pause', { status: 'paused' }],
    ['/resume', { status: 'active' }],
  ])('take an Idempotency-Key at %s', async (path, shown) => {
    const id = await create();
    const post = (idempotencyKey: string, json?: object) =>
      api.ask('POST', `/v1/flows/${id}${path}`, {
        key,
        headers: { 'Idempotency-Key': idempotencyKey },
        ...(json && { json }),
      });
    const first = await post('key-1');
    expect(first.body).toMatchObject(shown);
    // Meanwhile, the flow changes.
    await ask('POST', `/${id}/${path === '/pause' ? 'resume' : 'pause'}`);
    const again = await post('key-1');
    expect([again.status, again.body]).toEqual([first.status, first.body]);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    const long = await post('k'.repeat(256));
    expect(long).toMatchObject({ status: 400, body: { code: 'invalid_parameter' } });
  });

  it('run once for an Idempotency-Key, which keeps no dry run', async () => {
    const id = await create({ enabled: false });
    // Without endpoints, a dry run asks no server.
    const { commands } = api.installation;
    const server = await api.startServer({ commands: { ...commands, endpoints: async () => [] } });
    const run = (idempotencyKey: string, json: object) =>
      server.ask('POST', `/v1/flows/${id}/runs`, {
        key,
        json,
        headers: { 'Idempotency-Key': idempotencyKey },
      });
    const dry = await run('run-1', { dry_run: true });
    expect(dry.body).toHaveProperty('counts');
    const first = await run('run-1', {});
    expect(first.status).toBe(202);
    const other = await run('run-1', { dry_run: true });
    expect(other).toMatchObject({ status: 422, body: { code: 'idempotency_key_reused' } });
    const long = await run('k'.repeat(256), { dry_run: true });
    expect(long).toMatchObject({ status: 400, body: { code: 'invalid_parameter' } });
  });

  it('are shown to keys of the account with a scope for them', async () => {
    const id = await create();
    const transfers = await api.createKey(['transfers:write']);
    expect((await api.ask('GET', '/v1/flows', transfers)).body).toMatchObject({
      code: 'insufficient_scope',
      required_scope: 'flows:read',
    });
    const reader = await api.createKey(['flows:read']);
    expect((await api.ask('GET', `/v1/flows/${id}`, reader)).status).toBe(200);
    expect((await api.ask('DELETE', `/v1/flows/${id}`, reader)).status).toBe(403);
    const other = await api.createKey(['flows:write'], { account: 'acc_other' });
    expect((await api.ask('GET', `/v1/flows/${id}`, other)).body.code).toBe('not_found');
    expect((await api.ask('GET', '/v1/flows', other)).body.data).toEqual([]);
  });
});
