import type { OpenAPIV3_1 } from 'openapi-types';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WEBHOOK_EVENT_TYPES } from '../../src/domain/webhook.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

const WITH_KEY = {
  401: [
    'api_key_missing',
    'api_key_malformed',
    'api_key_invalid',
    'api_key_expired',
    'api_key_revoked',
    'api_key_id_used',
    'session_ended',
  ],
  403: ['insufficient_scope', 'cross_site_request'],
  429: ['rate_limited'],
  500: ['internal_error'],
  503: ['unavailable'],
};
const OPEN = { 429: WITH_KEY[429], 500: WITH_KEY[500], 503: WITH_KEY[503] };
const QUERY = { 400: ['invalid_parameter', 'unknown_field'] };
const BODY = {
  400: ['validation_failed', 'unknown_field', 'invalid_json'],
  408: ['request_timeout'],
  413: ['payload_too_large'],
  415: ['unsupported_media_type'],
};
const ONCE = { 409: ['idempotency_in_progress'], 422: ['idempotency_key_reused'] };
/** The payloads that a webhook gets, unless it is disabled. */
const TO_ENABLED = {
  ...WITH_KEY,
  400: ['invalid_parameter', 'unknown_field'],
  404: ['not_found'],
  409: [...ONCE[409], 'webhook_disabled'],
  422: ONCE[422],
};

type Schema = OpenAPIV3_1.SchemaObject;

/** The problems that each operation documents. */
const PROBLEMS: Record<string, Record<number, string[]>> = {
  'get /v1/openapi.json': { ...OPEN, 400: ['unknown_field'] },
  'post /v1/session': {
    ...OPEN,
    ...BODY,
    401: [
      'api_key_malformed',
      'api_key_invalid',
      'api_key_expired',
      'api_key_revoked',
      'api_key_id_used',
    ],
    403: ['insufficient_scope', 'cross_site_request'],
  },
  'get /v1/session/options': { ...OPEN, 400: ['unknown_field'] },
  'get /v1/session': { ...WITH_KEY, 400: ['unknown_field'], 404: ['not_found'] },
  'delete /v1/session': { ...WITH_KEY, 400: ['unknown_field'], 404: ['not_found'] },
  'put /v1/session/account': { ...WITH_KEY, ...BODY, 404: ['not_found'] },
  'get /v1/transfers': { ...WITH_KEY, ...QUERY },
  'post /v1/transfers': {
    ...WITH_KEY,
    ...BODY,
    ...ONCE,
    400: [...BODY[400], 'invalid_parameter', 'credentials_in_uri', 'endpoint_not_configured'],
    409: [...ONCE[409], 'limit_reached'],
  },
  'get /v1/transfers/summary': { ...WITH_KEY, ...QUERY },
  'get /v1/transfers/series': { ...WITH_KEY, ...QUERY },
  'post /v1/transfers/bulk': {
    ...WITH_KEY,
    ...BODY,
    ...ONCE,
    400: [...BODY[400], 'invalid_parameter'],
  },
  'get /v1/transfers/{transfer_id}': { ...WITH_KEY, ...QUERY, 404: ['not_found'] },
  'delete /v1/transfers/{transfer_id}': {
    ...WITH_KEY,
    400: ['unknown_field'],
    404: ['not_found'],
    409: ['transfer_not_cancellable'],
  },
  'patch /v1/transfers/{transfer_id}': {
    ...WITH_KEY,
    ...BODY,
    404: ['not_found'],
    409: ['priority_not_changeable'],
  },
  'post /v1/transfers/{transfer_id}/retry': {
    ...WITH_KEY,
    ...ONCE,
    400: ['unknown_field', 'invalid_parameter', 'endpoint_not_configured'],
    404: ['not_found'],
    409: [...ONCE[409], 'transfer_not_retryable', 'limit_reached'],
  },
  'get /v1/transfers/{transfer_id}/events': {
    ...WITH_KEY,
    400: ['unknown_field'],
    404: ['not_found'],
  },
  'get /v1/batches': { ...WITH_KEY, ...QUERY },
  'post /v1/batches': {
    ...WITH_KEY,
    ...BODY,
    ...ONCE,
    400: [...BODY[400], 'invalid_parameter', 'credentials_in_uri', 'endpoint_not_configured'],
    409: [...ONCE[409], 'limit_reached'],
  },
  'get /v1/batches/{batch_id}': { ...WITH_KEY, 400: ['unknown_field'], 404: ['not_found'] },
  'delete /v1/batches/{batch_id}': {
    ...WITH_KEY,
    400: ['unknown_field'],
    404: ['not_found'],
    409: ['batch_not_cancellable'],
  },
  'post /v1/batches/{batch_id}/retry': {
    ...WITH_KEY,
    ...ONCE,
    400: ['unknown_field', 'invalid_parameter'],
    404: ['not_found'],
    409: [...ONCE[409], 'batch_not_retryable'],
  },
  'get /v1/batches/{batch_id}/rejected': { ...WITH_KEY, ...QUERY, 404: ['not_found'] },
  'get /v1/flows': { ...WITH_KEY, ...QUERY },
  'post /v1/flows': {
    ...WITH_KEY,
    ...BODY,
    ...ONCE,
    400: [...BODY[400], 'invalid_parameter', 'credentials_in_uri', 'endpoint_not_configured'],
    409: [...ONCE[409], 'limit_reached'],
  },
  'get /v1/flows/{flow_id}': { ...WITH_KEY, 400: ['unknown_field'], 404: ['not_found'] },
  'patch /v1/flows/{flow_id}': {
    ...WITH_KEY,
    ...BODY,
    400: [...BODY[400], 'credentials_in_uri', 'endpoint_not_configured'],
    404: ['not_found'],
  },
  'delete /v1/flows/{flow_id}': { ...WITH_KEY, 400: ['unknown_field'], 404: ['not_found'] },
  'post /v1/flows/{flow_id}/pause': {
    ...WITH_KEY,
    ...ONCE,
    400: ['unknown_field', 'invalid_parameter'],
    404: ['not_found'],
  },
  'post /v1/flows/{flow_id}/resume': {
    ...WITH_KEY,
    ...ONCE,
    400: ['unknown_field', 'invalid_parameter'],
    404: ['not_found'],
  },
  'post /v1/flows/{flow_id}/runs': {
    ...WITH_KEY,
    ...BODY,
    ...ONCE,
    400: [...BODY[400], 'invalid_parameter'],
    404: ['not_found'],
  },
  'get /v1/flows/{flow_id}/runs': { ...WITH_KEY, ...QUERY, 404: ['not_found'] },
  'get /v1/flows/{flow_id}/files': { ...WITH_KEY, ...QUERY, 404: ['not_found'] },
  'get /v1/webhooks': { ...WITH_KEY, 400: ['unknown_field'] },
  'post /v1/webhooks': {
    ...WITH_KEY,
    ...BODY,
    ...ONCE,
    400: [...BODY[400], 'invalid_parameter', 'credentials_in_uri'],
    409: [...ONCE[409], 'limit_reached'],
  },
  'get /v1/webhooks/{webhook_id}': { ...WITH_KEY, 400: ['unknown_field'], 404: ['not_found'] },
  'patch /v1/webhooks/{webhook_id}': {
    ...WITH_KEY,
    ...BODY,
    400: [...BODY[400], 'credentials_in_uri'],
    404: ['not_found'],
  },
  'delete /v1/webhooks/{webhook_id}': { ...WITH_KEY, 400: ['unknown_field'], 404: ['not_found'] },
  'post /v1/webhooks/{webhook_id}/rotate-secret': {
    ...WITH_KEY,
    ...BODY,
    ...ONCE,
    400: [...BODY[400], 'invalid_parameter'],
    404: ['not_found'],
  },
  'post /v1/webhooks/{webhook_id}/ping': TO_ENABLED,
  'post /v1/webhooks/{webhook_id}/retry-failed': TO_ENABLED,
  'post /v1/webhooks/{webhook_id}/replay': {
    ...WITH_KEY,
    ...BODY,
    ...ONCE,
    400: [...BODY[400], 'invalid_parameter'],
    404: ['not_found'],
  },
  'get /v1/webhooks/{webhook_id}/deliveries': { ...WITH_KEY, ...QUERY, 404: ['not_found'] },
  'get /v1/webhooks/{webhook_id}/deliveries/{delivery_id}': {
    ...WITH_KEY,
    400: ['unknown_field'],
    404: ['not_found'],
  },
  'post /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver': TO_ENABLED,
  'get /v1/deliveries': { ...WITH_KEY, ...QUERY },
  'get /v1/deliveries/{delivery_id}': { ...WITH_KEY, 400: ['unknown_field'], 404: ['not_found'] },
  'post /v1/deliveries/retry-failed': {
    ...WITH_KEY,
    ...BODY,
    ...ONCE,
    400: [...BODY[400], 'invalid_parameter'],
  },
  'post /v1/deliveries/{delivery_id}/retry': TO_ENABLED,
  'get /v1/transfers/{transfer_id}/receipt': {
    ...WITH_KEY,
    ...QUERY,
    404: ['not_found'],
    409: ['receipt_not_ready'],
  },
  'get /v1/log/keys': { ...OPEN, 400: ['unknown_field'] },
  'get /v1/checkpoints': { ...WITH_KEY, ...QUERY },
  'post /v1/checkpoints': {
    ...WITH_KEY,
    ...ONCE,
    400: ['unknown_field', 'invalid_parameter'],
  },
  'get /v1/checkpoints/latest': { ...WITH_KEY, 400: ['unknown_field'], 404: ['not_found'] },
  'get /v1/checkpoints/sinks': { ...WITH_KEY, 400: ['unknown_field'] },
  'get /v1/checkpoints/{size}': { ...WITH_KEY, 400: ['unknown_field'], 404: ['not_found'] },
  'get /v1/checkpoints/{size}/consistency': { ...WITH_KEY, ...QUERY, 404: ['not_found'] },
  'get /v1/audit': { ...WITH_KEY, ...QUERY },
  'get /v1/events': { ...WITH_KEY, ...QUERY },
  'get /v1/endpoints': { ...WITH_KEY, 400: ['invalid_parameter', 'unknown_field'] },
  'post /v1/endpoints': { ...WITH_KEY, ...BODY, ...ONCE, 400: [...BODY[400], 'invalid_parameter'] },
  'post /v1/endpoints/test': { ...WITH_KEY, ...BODY },
  'get /v1/endpoints/{endpoint_id}': { ...WITH_KEY, 400: ['unknown_field'], 404: ['not_found'] },
  'put /v1/endpoints/{endpoint_id}': {
    ...WITH_KEY,
    ...BODY,
    400: [...BODY[400], 'invalid_parameter'],
    404: ['not_found'],
    412: ['precondition_failed'],
  },
  'delete /v1/endpoints/{endpoint_id}': {
    ...WITH_KEY,
    400: ['unknown_field', 'invalid_parameter'],
    404: ['not_found'],
    409: ['endpoint_in_use'],
    412: ['precondition_failed'],
  },
  'post /v1/endpoints/{endpoint_id}/test': {
    ...WITH_KEY,
    ...BODY,
    404: ['not_found'],
    502: ['endpoint_failed'],
  },
  'post /v1/endpoints/{endpoint_id}/accept-host-key': {
    ...WITH_KEY,
    ...BODY,
    ...ONCE,
    400: [...BODY[400], 'invalid_parameter'],
    404: ['not_found'],
    502: ['endpoint_failed'],
  },
  'post /v1/endpoints/{endpoint_id}/pause': {
    ...WITH_KEY,
    ...ONCE,
    400: ['unknown_field', 'invalid_parameter'],
    404: ['not_found'],
  },
  'post /v1/endpoints/{endpoint_id}/resume': {
    ...WITH_KEY,
    ...ONCE,
    400: ['unknown_field', 'invalid_parameter'],
    404: ['not_found'],
  },
  'get /v1/endpoints/{endpoint_id}/files': {
    ...WITH_KEY,
    ...QUERY,
    404: ['not_found'],
    502: ['endpoint_failed'],
  },
  'get /v1/keys': { ...WITH_KEY, 400: ['unknown_field'] },
  'post /v1/keys': { ...WITH_KEY, ...BODY, ...ONCE, 400: [...BODY[400], 'invalid_parameter'] },
  'post /v1/keys/{key_id}/revoke': {
    ...WITH_KEY,
    ...ONCE,
    400: ['unknown_field', 'invalid_parameter'],
    404: ['not_found'],
  },
  'get /v1/projections': { ...WITH_KEY, 400: ['unknown_field'] },
  'get /v1/projections/live': { ...WITH_KEY, 400: ['unknown_field'] },
  'get /v1/projections/{name}': { ...WITH_KEY, 400: ['unknown_field'], 404: ['not_found'] },
  'post /v1/projections/{name}/rebuild': {
    ...WITH_KEY,
    ...ONCE,
    400: ['unknown_field', 'invalid_parameter'],
    404: ['not_found'],
  },
  'post /v1/projections/{name}/verify': {
    ...WITH_KEY,
    ...ONCE,
    400: ['unknown_field', 'invalid_parameter'],
    404: ['not_found'],
  },
  'get /v1/movers': { ...WITH_KEY, 400: ['unknown_field'] },
  'get /v1/operations/series': { ...WITH_KEY, ...QUERY },
  'get /v1/transfers/live': { ...WITH_KEY, ...QUERY, 404: ['not_found'] },
  'post /v1/transfers/{transfer_id}/abort': {
    ...WITH_KEY,
    ...ONCE,
    400: ['unknown_field', 'invalid_parameter'],
    404: ['not_found'],
    409: ['idempotency_in_progress', 'transfer_not_cancellable'],
  },
  'get /health/live': {},
  'get /health/ready': {},
  'get /metrics': WITH_KEY,
};

describeWithPostgres('the OpenAPI document', () => {
  let api: TestApi;
  let document: OpenAPIV3_1.Document;
  let operations: [name: string, operation: OpenAPIV3_1.OperationObject][];
  beforeAll(async () => {
    api = await startApi();
    document = (await api.ask('GET', '/v1/openapi.json', { key: null })).body;
    operations = Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
      Object.entries(item as Record<string, OpenAPIV3_1.OperationObject>).map(
        ([method, operation]) => [`${method} ${path}`, operation] as (typeof operations)[number],
      ),
    );
  });
  afterAll(() => api?.close());

  /** Returns what a reference means, and anything else as it is. */
  function target<Value>(value: unknown): Value {
    const { $ref } = value as { $ref?: string };
    if ($ref === undefined) return value as Value;
    return $ref
      .slice(2)
      .split('/')
      .reduce<unknown>((part, name) => (part as Record<string, unknown>)[name], document) as Value;
  }

  test('describes every route, with every problem code that it may return', () => {
    expect(document.openapi).toBe('3.1.0');
    const documented = operations.map(([name, { responses }]) => {
      const problems = Object.entries(responses ?? {}).flatMap(([status, response]) => {
        const { content } = target<OpenAPIV3_1.ResponseObject>(response);
        const examples = content?.['application/problem+json']?.examples;
        return examples ? [[status, Object.keys(examples)]] : [];
      });
      return [name, Object.fromEntries(problems)];
    });
    const expected = Object.entries(PROBLEMS).map(([name, problems]) => {
      // An operation that reads no body rejects one. A GET ignores it.
      const ofBody: Partial<typeof BODY> = name.startsWith('get ') ? {} : BODY;
      const of400 = new Set([
        ...(problems[400] ?? []),
        ...(ofBody[400] ?? []),
        'malformed_request',
      ]);
      const all = { ...ofBody, ...problems, 400: [...of400] };
      return [name, Object.fromEntries(Object.entries(all).map(([k, v]) => [k, v.toSorted()]))];
    });
    expect(Object.fromEntries(documented)).toEqual(Object.fromEntries(expected));
  });

  test('says that a client may ask for it only if it has changed', () => {
    const [, itself] = operations.find(([name]) => name === 'get /v1/openapi.json') ?? [];
    expect(itself?.parameters).toMatchObject([{ in: 'header', name: 'If-None-Match' }]);
    for (const status of ['200', '304'])
      expect(itself?.responses?.[status], status).toHaveProperty('headers.ETag');
  });

  test('rejects a parameter, as each path below /v1 does that has none', async () => {
    expect(await api.ask('GET', '/v1/openapi.json?version=2', { key: null })).toMatchObject({
      status: 400,
      body: { code: 'unknown_field', errors: [{ field: 'version' }] },
    });
  });

  test('names each operation once, with the scope that it needs', () => {
    const ids = operations.map(([, { operationId }]) => operationId);
    expect(new Set(ids).size).toBe(ids.length);
    expect(document.security).toEqual([{ apiKey: [] }]);
    const open = operations
      .filter(([, { security }]) => security?.length === 0)
      .map(([name]) => name);
    expect(open.sort()).toEqual([
      'get /health/live',
      'get /health/ready',
      'get /v1/log/keys',
      'get /v1/openapi.json',
      'get /v1/session/options',
      'post /v1/session',
    ]);
    for (const [name, { summary, tags }] of operations)
      expect([name, typeof summary, tags?.length]).toEqual([name, 'string', 1]);
    const scopes = operations.map(([name, operation]) => {
      const scope = (operation as { 'x-required-scope'?: string })['x-required-scope'];
      expect.soft(scope === undefined || operation.description?.includes(scope), name).toBe(true);
      return [name, scope];
    });
    const unscoped = scopes.flatMap(([name, scope]) => (scope === undefined ? [name] : []));
    const ofAnySession = ['delete /v1/session', 'get /v1/session', 'put /v1/session/account'];
    expect(unscoped.sort(), 'give the route a scope in its config').toEqual(
      [...open, ...ofAnySession].sort(),
    );
    expect(Object.fromEntries(scopes)).toMatchObject({
      'get /v1/transfers': 'transfers:read',
      'post /v1/transfers': 'transfers:write',
      'get /v1/keys': 'admin',
    });
    const list = operations.find(([name]) => name === 'get /v1/transfers')?.[1];
    expect(list?.description).toBe(
      'With `Accept: text/csv`, the answer has all matches as CSV, and `limit` and `offset` have no ' +
        'effect.\n\nNeeds a key with the scope `transfers:read`, `transfers:write` or `admin`.',
    );
  });

  test('describes every webhook payload, and its signature', async () => {
    const { webhooks } = (await api.ask('GET', '/v1/openapi.json')).body;
    expect(Object.keys(webhooks).toSorted()).toEqual([...WEBHOOK_EVENT_TYPES, 'ping'].toSorted());
    const payloadOf = (type: string) => {
      const payload = target<Schema>(
        webhooks[type].post.requestBody.content['application/json'].schema,
      );
      return { ...payload, data: target<Schema>(payload.properties!.data) };
    };
    for (const [type, { post }] of Object.entries<{ post: { parameters: { name: string }[] } }>(
      webhooks,
    )) {
      const headers = [
        'X-Service-Signature',
        'webhook-id',
        'webhook-timestamp',
        'webhook-signature',
      ];
      expect(post.parameters.map(({ name }) => name)).toEqual(headers);
      expect(payloadOf(type)).toMatchObject({
        properties: { type: { const: type } },
        required: ['id', 'type', 'created_at', 'data'],
      });
    }
    const fields = [
      'transfer_id',
      'file_name',
      'size_bytes',
      'status',
      'source',
      'destination',
      'duration_ms',
      'checksum_sha256',
    ];
    expect(payloadOf('transfer.completed').data.required).toEqual(fields);
  });

  test('lets answers have new fields, and requests no unknown ones', () => {
    const closedIn = (part: unknown, path: string, seen = new Set<string>()): string[] => {
      const { $ref, additionalProperties } = part as { $ref?: string } & Schema;
      if ($ref !== undefined)
        return seen.has($ref) ? [] : closedIn(target(part), $ref, seen.add($ref));
      return [
        ...(additionalProperties === false ? [path] : []),
        ...Object.entries(part as object).flatMap(([name, value]) =>
          typeof value === 'object' && value !== null && !/^examples?$/.test(name)
            ? closedIn(value, `${path}/${name}`, seen)
            : [],
        ),
      ];
    };
    for (const [name, { requestBody, responses }] of operations) {
      expect.soft(closedIn(responses, name)).toEqual([]);
      if (requestBody) expect.soft(closedIn(requestBody, name)).not.toEqual([]);
    }
    expect(closedIn(document.webhooks, 'webhooks')).toEqual([]);
  });

  test('has no reference without a target', () => {
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(
      ([, path]) => path as string,
    );
    expect(references.length).toBeGreaterThan(20);
    for (const reference of new Set(references)) {
      const target = reference
        .split('/')
        .reduce<unknown>(
          (value, name) => (value as Record<string, unknown> | undefined)?.[name],
          document,
        );
      expect(target, reference).toBeDefined();
    }
  });

  test('describes the parameters of the list', () => {
    const parameters = Object.fromEntries(
      operations
        .find(([name]) => name === 'get /v1/transfers')?.[1]
        .parameters?.map((p) => [(p as OpenAPIV3_1.ParameterObject).name, p]) ?? [],
    );
    expect(Object.keys(parameters)).toEqual([
      'q',
      'status',
      'error_code',
      'error_endpoint_id',
      'from_date',
      'to_date',
      'destination',
      'retry_of',
      'batch_id',
      'retried',
      'sort',
      'limit',
      'offset',
    ]);
    expect(parameters.limit).toMatchObject({
      in: 'query',
      required: false,
      schema: { type: 'integer', minimum: 1, maximum: 100, default: 25 },
    });
    expect(parameters.retried).toMatchObject({ required: false, schema: { type: 'boolean' } });
    expect(parameters.offset).toMatchObject({
      schema: { type: 'integer', minimum: 0, default: 0 },
    });
  });

  test('documents every header that an answer carries', () => {
    const headers = (name: string, status: string) => {
      const [, operation] = operations.find(([found]) => found === name) ?? [];
      const { headers } = target<OpenAPIV3_1.ResponseObject>(operation!.responses![status]);
      return Object.keys(headers ?? {});
    };
    const always = [
      'X-Request-Id',
      'X-RateLimit-Limit',
      'X-RateLimit-Remaining',
      'X-RateLimit-Reset',
    ];
    expect(headers('post /v1/transfers', '201')).toEqual([
      ...always,
      'Location',
      'Idempotent-Replayed',
    ]);
    expect(headers('post /v1/transfers', '401')).toEqual([...always, 'WWW-Authenticate']);
    expect(headers('post /v1/transfers', '429')).toEqual([...always, 'Retry-After']);
    expect(headers('post /v1/transfers', '409')).toEqual([...always, 'Retry-After']);
    expect(headers('delete /v1/transfers/{transfer_id}', '409')).toEqual(always);
    const ping = 'post /v1/webhooks/{webhook_id}/ping';
    expect(headers(ping, '202')).toEqual([...always, 'Location', 'Idempotent-Replayed']);
    expect(headers(ping, '404')).toEqual([...always, 'Idempotent-Replayed']);
    expect(headers('get /v1/transfers', '200')).toEqual(always);
  });

  test('contains a valid example of a request', async () => {
    const schema = document.components?.schemas?.TransferRequest;
    const [example] = (schema as { examples?: unknown[] }).examples ?? [];
    expect(await api.ask('POST', '/v1/transfers', { json: example })).toMatchObject({
      status: 201,
    });
  });
});
