import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { protocolOf } from '../../../src/domain/protocols/index.ts';
import { VIA_TYPES } from '../../../src/domain/protocols/via.ts';
import {
  ENDPOINT_KINDS,
  type EndpointName,
  type TestEndpoint,
} from '../../support/file-servers/endpoints.ts';
import { startApi, type TestApi } from '../../support/http/api.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { untilStatus } from '../../support/service/installation.ts';
import { type RunningRoles, startRoles } from '../../support/service/roles.ts';
import { until } from '../../support/service/transfers.ts';

// Only a net: hundreds of endpoints, each with an examination and a transfer, whose waits fail
// earlier.
vi.setConfig({ testTimeout: 20 * 60_000 });

/** Values that once broke something somewhere: a URL, a header, a path, a command, a parser. */
export const NASTY = [
  '',
  ' ',
  'a b',
  'a\u0000b',
  'a\nb',
  'a\r\nX-Evil: 1',
  '\u0001\u007f',
  '\u202egpj.exe',
  'é🎉ü',
  '\ud800',
  'a/b',
  '..',
  '/./a/../b',
  'a\\b',
  'a?b=c#d',
  'u:p@h',
  '%zz%00',
  '[::1]',
  '::1',
  '0x7f.1',
  '1.2.3.999',
  'xn--a',
  'xn--mnchen-3ya.invalid',
  'arn:aws:s3:eu-west-1:1:accesspoint/a',
  '-----BEGIN CERTIFICATE-----\nnonsense',
  'https://u:p@127.0.0.1:1/',
  'http://127.0.0.1:1/?a=b',
  'http://127.0.0.1:1/#a',
  'http://127.0.0.1:1/a b\\..%2f',
  'http://[::1]:1',
  'http://127.0.0.1:0',
  `http://127.0.0.1:1/${'a'.repeat(20_000)}`,
  'a'.repeat(63),
  `/${'é'.repeat(1_000)}`,
  'a'.repeat(16_000),
];
const KINDS: EndpointName[] = ['sftp', 'ftps', 's3-strict', 'azure'];

/** Nothing listens there. */
const HOP = { host: '127.0.0.1', port: 1, username: 'me' };
const BY_PASSWORD = { ...HOP, password: 'secret' };

/** The changes of a sound request that put the value into the field, or into each field of a hop. */
function changesOf(field: string, value: string): Record<string, unknown>[] {
  if (field !== 'via') return [{ [field]: value }];
  return VIA_TYPES.flatMap((type) => [
    { via: { type, ...BY_PASSWORD, host: value } },
    { via: { type, ...BY_PASSWORD, username: value } },
    { via: { type, ...BY_PASSWORD, password: value } },
    { via: { type, ...HOP, private_key: value } },
  ]);
}

interface Problem {
  status: number;
  body: { errors?: { field: string }[]; endpoint_error?: { code: string } };
}

/** The long test takes all values. */
export const FEW = ['a\r\nX-Evil: 1'];

/** Puts each value into every field of every protocol, and tests, lists and moves with it. */
export function describeEndpointValues(values: readonly string[]): void {
  describeWithPostgres('an endpoint with a nasty value', () => tests(values));
}

function tests(values: readonly string[]): void {
  let api: TestApi;
  let roles: RunningRoles;
  let key: string;
  beforeAll(async () => {
    api = await startApi({}, { WAYBILL_TRANSFER_RETRY_DELAYS: '10ms' });
    key = (await api.createKey(['admin'])).key;
    roles = await startRoles(api.installation, ['projector', 'mover']);
  });
  afterAll(async () => {
    await roles?.stop();
    await api?.close();
  });

  const ask = (method: string, path: string, json?: unknown) =>
    api.ask(method, `/v1/endpoints${path}`, { key, ...(json === undefined ? {} : { json }) });

  /** Repeats what a busy service answers with 503, as its clients do. */
  const create = (name: string, json: unknown) =>
    until(`an answer for ${name}`, async () => {
      const headers = { 'Idempotency-Key': name };
      const made: Problem & { body: { id?: string } } = await api.ask('POST', '/v1/endpoints', {
        key,
        json,
        headers,
      });
      return made.status === 503 ? null : made;
    });

  let last = 0;
  /** What went wrong beyond what a partner's server may do; null for nothing. */
  async function problemWith(
    sound: Record<string, unknown>,
    field: string,
    changes: Record<string, unknown>,
  ): Promise<string | null> {
    const name = `nasty-${++last}`;
    const json = { ...sound, name, ...changes };
    const made = await create(name, json);
    if (made.status === 400) {
      const fields = made.body.errors?.map((error) => error.field) ?? [];
      return fields.some((named) => named.split('.')[0] === field) ? null : `400 names ${fields}`;
    }
    if (made.status !== 201) return `create: ${made.status}`;
    const { id } = made.body;
    const tested = await ask('POST', `/${id}/test`);
    if (tested.status !== 200) return `test: ${tested.status}`;
    if (String(tested.body).includes('internal_error')) return `test: ${tested.body}`;
    const listed: Problem = await ask('GET', `/${id}/files`);
    if (listed.status === 500 || listed.body.endpoint_error?.code === 'internal_error')
      return `list: ${JSON.stringify(listed.body)}`;
    const moved = await api.ask('POST', '/v1/transfers', {
      json: {
        source_uri: `${sound.protocol}://${name}/probe.txt`,
        destination_uri: `${sound.protocol}://${name}/copy.txt`,
      },
    });
    if (moved.status !== 201) return `move: ${moved.status} ${JSON.stringify(moved.body)}`;
    const { id: transfer } = moved.body;
    const end = await untilStatus(api.installation, transfer, ['completed', 'failed'], 120);
    if (end.facts.error?.code === 'internal_error') return `move: ${end.facts.error.message}`;
    await ask('DELETE', `/${id}`);
    return null;
  }

  test.for(KINDS)(
    '%s is rejected by name, works, or fails as its server does',
    async (kind, ctx) => {
      const { protocol, whyNot, start } = ENDPOINT_KINDS[kind];
      if (whyNot !== null) return ctx.skip(whyNot);
      const server: TestEndpoint = await start();
      try {
        await server.put('probe.txt', Buffer.from('1,2,3'));
        const { fields, signIns } = protocolOf({ protocol });
        const problems: Record<string, string> = {};
        for (const field of Object.keys(fields)) {
          const way = Object.values(signIns).find(({ secrets }) => field in secrets);
          const sound = way ? withoutOthers(server.request, signIns, way) : server.request;
          const all = values.flatMap((value) => changesOf(field, value));
          const cases = all.map(async (changes) => {
            const problem = await problemWith(sound, field, changes);
            if (problem) problems[JSON.stringify(changes).slice(0, 120)] = problem;
          });
          await Promise.all(cases);
        }
        expect(problems).toEqual({});
      } finally {
        await server.stop();
      }
    },
  );
}

/** The request with the secrets of no other way to sign in. */
function withoutOthers(
  request: Record<string, unknown>,
  signIns: Record<string, { secrets: object }>,
  way: { secrets: object },
): Record<string, unknown> {
  const others = Object.values(signIns)
    .filter((other) => other !== way)
    .flatMap(({ secrets }) => Object.keys(secrets));
  return Object.fromEntries(Object.entries(request).filter(([name]) => !others.includes(name)));
}
