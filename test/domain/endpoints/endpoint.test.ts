import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type EndpointCommand, endpointDecider } from '../../../src/domain/endpoints/decider.ts';
import type {
  ConnectivityLost,
  EndpointDefinition,
  EndpointEvent,
  SealedCredentials,
} from '../../../src/domain/endpoints/endpoint.ts';
import * as endpoint from '../../../src/domain/endpoints/endpoint.ts';
import type { DomainErrorCode } from '../../../src/domain/errors.ts';
import { inKeyOrder } from '../../../src/domain/events/canonical-json.ts';
import type { EndpointSettings } from '../../../src/domain/protocols/index.ts';
import { outcomeOf, specify, stateAfter } from '../../support/domain/decider.ts';
import { endpointConfigured, sftpSettings, T1, T2 } from '../../support/domain/samples.ts';

const given = specify(endpointDecider);
const HOST_KEY = `SHA256:${'a'.repeat(43)}`;
const LOST: ConnectivityLost = {
  endpoint_id: endpointConfigured().endpoint_id,
  name: 'files',
  protocol: 'sftp',
  host: 'files.example.com',
  last_success_at: null,
  detected_at: T1,
  error: { code: 'timeout', message: 'no answer' },
};

const configured: EndpointEvent = { type: 'endpoint.configured', data: endpointConfigured() };
const paused: EndpointEvent = { type: 'endpoint.paused', data: {} };
const removed: EndpointEvent = { type: 'endpoint.removed', data: {} };
const lost = { type: 'endpoint.connectivity_lost', data: LOST } satisfies EndpointEvent;
const pinned: EndpointEvent = {
  type: 'endpoint.updated',
  data: definition({ host_key_sha256: HOST_KEY }),
};
const NEW_KEY = {
  sha256: `SHA256:${'b'.repeat(43)}`,
  key_type: 'ssh-ed25519',
  verified_by: HOST_KEY,
};
const announced = {
  type: 'endpoint.host_key_announced',
  data: { endpoint_id: LOST.endpoint_id, name: 'files', ...NEW_KEY, announced_at: T1 },
} satisfies EndpointEvent;
const credentials: SealedCredentials = { credentials_record: 'vlt_2', sign_in: 'private_key' };

function definition(
  settings: Parameters<typeof sftpSettings>[0] = {},
  changes: Partial<EndpointDefinition> = {},
): EndpointDefinition {
  return {
    max_connections: 8,
    accounts: null,
    overwrite: true,
    bandwidth: null,
    settings: sftpSettings(settings),
    ...changes,
  };
}

function s3({ endpoint_url }: { endpoint_url: string | null }): EndpointSettings {
  const none = { ca_pem: null, storage_class: null, sse: null, sse_kms_key_id: null };
  return {
    protocol: 's3',
    bucket: 'archive',
    prefix: '',
    region: 'eu-central-1',
    endpoint_url,
    force_path_style: false,
    ...none,
  };
}

function azure({ endpoint_url }: { endpoint_url: string | null }): EndpointSettings {
  return {
    protocol: 'azure',
    account: 'acme',
    container: 'c',
    prefix: '',
    endpoint_url,
    ca_pem: null,
  };
}

const HISTORIES = {
  none: [],
  configured: [configured],
  paused: [configured, paused],
  unreachable: [configured, lost],
  pinned: [configured, pinned],
  removed: [configured, removed],
} satisfies Record<string, EndpointEvent[]>;
type Status = keyof typeof HISTORIES;
const STATUSES = Object.keys(HISTORIES) as Status[];

describe('every command in every state', () => {
  const gone: Partial<Record<Status, DomainErrorCode>> = {
    none: 'not_found',
    removed: 'not_found',
  };
  const always = (type: EndpointEvent['type']) => ({
    configured: type,
    paused: type,
    unreachable: type,
    pinned: type,
  });
  const table: [
    EndpointCommand,
    Partial<Record<Status, EndpointEvent['type'] | DomainErrorCode>>,
  ][] = [
    [{ type: 'configure', data: endpointConfigured() }, { none: 'endpoint.configured' }],
    [
      { type: 'update', definition: definition({ username: 'other' }), credentials: null },
      { ...gone, ...always('endpoint.updated') },
    ],
    [
      { type: 'accept_host_key', host_key_sha256: HOST_KEY },
      {
        ...gone,
        configured: 'endpoint.updated',
        paused: 'endpoint.updated',
        unreachable: 'endpoint.updated',
      },
    ],
    [
      { type: 'announce_host_keys', host_keys: [NEW_KEY], now: T1 },
      { ...gone, pinned: 'endpoint.host_key_announced' },
    ],
    [
      { type: 'pause' },
      {
        ...gone,
        configured: 'endpoint.paused',
        unreachable: 'endpoint.paused',
        pinned: 'endpoint.paused',
      },
    ],
    [{ type: 'resume' }, { ...gone, paused: 'endpoint.resumed' }],
    [{ type: 'remove' }, { none: 'not_found', ...always('endpoint.removed') }],
    [
      { type: 'lose_connectivity', data: LOST },
      {
        ...gone,
        configured: 'endpoint.connectivity_lost',
        paused: 'endpoint.connectivity_lost',
        pinned: 'endpoint.connectivity_lost',
      },
    ],
    [
      { type: 'restore_connectivity', now: T2 },
      { ...gone, unreachable: 'endpoint.connectivity_restored' },
    ],
  ];

  for (const [command, outcomes] of table) {
    it.each(STATUSES)(`${command.type}: %s`, (status) => {
      const outcome = outcomeOf(endpointDecider, HISTORIES[status], command);
      expect(typeof outcome === 'string' ? outcome : outcome.map(({ type }) => type)).toEqual(
        outcomes[status]?.startsWith('endpoint.') ? [outcomes[status]] : (outcomes[status] ?? []),
      );
    });
  }
});

describe('an update', () => {
  it('yields no event without a change', () => {
    for (const stored of [configured, inKeyOrder(configured)])
      given([stored])
        .when({ type: 'update', definition: definition(), credentials: null })
        .yields([]);
  });

  it('changes settings and credentials in separate events', () => {
    const changed = definition({ port: 2222 }, { accounts: ['acc_a'] });
    given([configured])
      .when({ type: 'update', definition: changed, credentials })
      .yields([
        { type: 'endpoint.updated', data: changed },
        { type: 'endpoint.credentials_replaced', data: credentials },
      ]);
  });

  it('keeps the accepted host key of the same server, and drops it with the server', () => {
    given([configured, pinned])
      .when({ type: 'update', definition: definition(), credentials: null })
      .yields([]);
    for (const moved of [{ port: 2222 }, { host: 'other.example.com' }]) {
      const update: EndpointEvent = {
        type: 'endpoint.updated',
        data: definition({ ...moved, host_key_sha256: null }),
      };
      given([configured, pinned])
        .when({ type: 'update', definition: definition(moved), credentials })
        .yields([update, { type: 'endpoint.credentials_replaced', data: credentials }]);
    }
  });

  it('does not send kept credentials to another server', () => {
    for (const moved of [{ port: 2222 }, { host: 'other.example.com' }]) {
      given([configured])
        .when({ type: 'update', definition: definition(moved), credentials: null })
        .yields('validation_failed');
    }
    // Another writer changed this between the update's read of the endpoint and its append.
    const elsewhere = definition({ host: 'other.example.com' });
    given([
      configured,
      { type: 'endpoint.updated', data: elsewhere },
      { type: 'endpoint.credentials_replaced', data: credentials },
    ])
      .when({ type: 'update', definition: definition(), credentials: null })
      .yields('validation_failed');
  });

  it('accepts the host key that it names', () => {
    const other = definition({ host_key_sha256: `SHA256:${'b'.repeat(43)}` });
    given([configured, pinned])
      .when({ type: 'update', definition: other, credentials: null })
      .yields([{ type: 'endpoint.updated', data: other }]);
  });
});

describe('a host key', () => {
  it('is accepted once', () => {
    given([configured])
      .when({ type: 'accept_host_key', host_key_sha256: HOST_KEY })
      .yields([pinned]);
    given([configured, pinned])
      .when({ type: 'accept_host_key', host_key_sha256: HOST_KEY })
      .yields([]);
  });

  it('exists only for SFTP', () => {
    given([
      {
        type: 'endpoint.configured',
        data: endpointConfigured({ settings: azure({ endpoint_url: null }) }),
      },
    ])
      .when({ type: 'accept_host_key', host_key_sha256: HOST_KEY })
      .yields('validation_failed');
  });
});

describe('several host keys', () => {
  const OTHER = `SHA256:${'c'.repeat(43)}`;
  const both = [
    { sha256: HOST_KEY, expires_at: T2 },
    { sha256: OTHER, expires_at: null },
  ];
  const accepting = (host_keys: typeof both): EndpointDefinition =>
    definition({ host_key_sha256: host_keys[0]?.sha256 ?? null, host_keys });
  const update = (definition: EndpointDefinition): EndpointCommand => ({
    type: 'update',
    definition,
    credentials: null,
  });
  const updated = (data: EndpointDefinition): EndpointEvent => ({ type: 'endpoint.updated', data });

  it('are stored with the first one by itself, which older versions read', () => {
    given([configured])
      .when(update(definition({ host_keys: both })))
      .yields([updated(accepting(both))]);
  });

  it('are stored as a single one where that says the same', () => {
    const single = [{ sha256: HOST_KEY, expires_at: null }];
    given([configured, pinned])
      .when(update(definition({ host_keys: single })))
      .yields([]);
    given([configured, updated(accepting(both))])
      .when(update(definition({ host_keys: single })))
      .yields([pinned]);
  });

  it('stay if a change names none of them, or one of them without the list', () => {
    for (const named of [{}, { host_key_sha256: OTHER }, { host_key_sha256: HOST_KEY }]) {
      given([configured, updated(accepting(both))])
        .when(update(definition(named)))
        .yields([]);
    }
    const third = definition({ host_key_sha256: NEW_KEY.sha256 });
    given([configured, updated(accepting(both))])
      .when(update(third))
      .yields([updated(third)]);
  });

  it('of the log of an older version are one', () => {
    const { host_keys: _, ...old } = sftpSettings({ host_key_sha256: HOST_KEY });
    const recorded = { ...definition(), settings: old as EndpointSettings };
    given([configured, updated(recorded)])
      .when({ type: 'accept_host_key', host_key_sha256: HOST_KEY })
      .yields([]);
  });

  it('have a time of expiry in UTC', () => {
    const [first, second] = both as [(typeof both)[0], (typeof both)[1]];
    const given_ = [{ ...first, expires_at: '2026-12-31T23:00:00-02:00' }, second];
    given([configured])
      .when(update(definition({ host_keys: given_ })))
      .yields([updated(accepting([{ ...first, expires_at: '2027-01-01T01:00:00.000Z' }, second]))]);
  });

  it('no longer expire once they are accepted again', () => {
    given([configured, updated(accepting(both))])
      .when({ type: 'accept_host_key', host_key_sha256: HOST_KEY })
      .yields([updated(accepting(both.map(({ sha256 }) => ({ sha256, expires_at: null }))))]);
  });

  it('give way to a key that only the server presents', () => {
    given([configured, updated(accepting(both))])
      .when({ type: 'accept_host_key', host_key_sha256: NEW_KEY.sha256 })
      .yields([updated(definition({ host_key_sha256: NEW_KEY.sha256 }))]);
  });
});

describe('an announced host key', () => {
  const announce = (...host_keys: (typeof NEW_KEY)[]): EndpointCommand => ({
    type: 'announce_host_keys',
    host_keys,
    now: T1,
  });
  const stateOf = (events: EndpointEvent[]) =>
    endpoint.newHostKeysOf(stateAfter(endpointDecider, events) as endpoint.Endpoint);

  it('is recorded once, and without the accepted keys', () => {
    const own = { ...NEW_KEY, sha256: HOST_KEY };
    given([configured, pinned]).when(announce(own, NEW_KEY)).yields([announced]);
    given([configured, pinned, announced]).when(announce(NEW_KEY, own)).yields([]);
  });

  it('joins the accepted keys when an administrator accepts it', () => {
    const keys = [HOST_KEY, NEW_KEY.sha256].map((sha256) => ({ sha256, expires_at: null }));
    const accepted = definition({ host_key_sha256: HOST_KEY, host_keys: keys });
    given([configured, pinned, announced])
      .when({ type: 'accept_host_key', host_key_sha256: NEW_KEY.sha256 })
      .yields([{ type: 'endpoint.updated', data: accepted }]);
    expect(stateOf([configured, pinned, announced])).toMatchObject([NEW_KEY]);
    expect(
      stateOf([configured, pinned, announced, { type: 'endpoint.updated', data: accepted }]),
    ).toEqual([]);
  });

  it('counts only while the key that verified the server is accepted', () => {
    const moved: EndpointEvent = {
      type: 'endpoint.updated',
      data: definition({ host: 'other.example.com', host_key_sha256: `SHA256:${'d'.repeat(43)}` }),
    };
    expect(stateOf([configured, pinned, announced, moved])).toEqual([]);
    given([configured, pinned, announced, moved]).when(announce(NEW_KEY)).yields([]);
    given([configured]).when(announce(NEW_KEY)).yields([]);
  });

  it('is one of sixteen at most', () => {
    const many = Array.from({ length: 40 }, (_, i) => ({
      ...NEW_KEY,
      sha256: `SHA256:${String(i).padStart(43, '0')}`,
    }));
    const outcome = outcomeOf(endpointDecider, [configured, pinned], announce(...many));
    const events = outcome as EndpointEvent[];
    expect(events).toHaveLength(16);
    given([configured, pinned, ...events])
      .when(announce(NEW_KEY))
      .yields([]);
  });
});

describe('connectivity', () => {
  const restored: EndpointEvent = {
    type: 'endpoint.connectivity_restored',
    data: { restored_at: T2 },
  };
  const again = {
    type: 'endpoint.connectivity_lost',
    data: { ...LOST, last_success_at: T2 },
  } satisfies EndpointEvent;

  it('is lost and restored once in an outage', () => {
    given([configured, lost]).when({ type: 'lose_connectivity', data: again.data }).yields([]);
    given([configured, lost]).when({ type: 'restore_connectivity', now: T2 }).yields([restored]);
    given([configured, lost, restored]).when({ type: 'restore_connectivity', now: T2 }).yields([]);
    given([configured, lost, restored])
      .when({ type: 'lose_connectivity', data: again.data })
      .yields([again]);
  });

  it.each([
    ['sftp://files', sftpSettings({ host: 'files' }), 'files'],
    ['a bucket of AWS', s3({ endpoint_url: null }), 'archive.s3.eu-central-1.amazonaws.com'],
    [
      'a bucket elsewhere',
      s3({ endpoint_url: 'https://minio.example.com:9000' }),
      'minio.example.com',
    ],
    ['a container of Azure', azure({ endpoint_url: null }), 'acme.blob.core.windows.net'],
    ['an emulator', azure({ endpoint_url: 'http://127.0.0.1:10000/acme' }), '127.0.0.1'],
  ])('uses the host of %s', (_, settings, host) => {
    expect(endpoint.hostOf(settings)).toBe(host);
  });
});

describe('the bandwidth', () => {
  const bandwidth = { bytes_per_second: 5_000_000, windows: [] };
  const limited: EndpointEvent = {
    type: 'endpoint.updated',
    data: definition({}, { bandwidth }),
  };
  const limit = (to: typeof bandwidth | null): EndpointCommand => ({
    type: 'limit_bandwidth',
    bandwidth: to,
  });

  it('is none in events that lack it', () => {
    given([configured]).when(limit(null)).yields([]);
    given([configured])
      .when({ type: 'update', definition: definition(), credentials: null })
      .yields([]);
  });

  it('changes alone, and only if it differs', () => {
    given([configured]).when(limit(bandwidth)).yields([limited]);
    given([configured, limited])
      .when(limit({ ...bandwidth }))
      .yields([]);
    given([configured, limited])
      .when(limit(null))
      .yields([{ type: 'endpoint.updated', data: definition() }]);
  });

  it('stays when a host key is accepted', () => {
    given([configured, limited])
      .when({ type: 'accept_host_key', host_key_sha256: HOST_KEY })
      .yields([
        {
          type: 'endpoint.updated',
          data: definition({ host_key_sha256: HOST_KEY }, { bandwidth }),
        },
      ]);
  });
});

describe('evolve', () => {
  it('keeps the facts of the events', () => {
    const events: EndpointEvent[] = [
      configured,
      pinned,
      paused,
      lost,
      { type: 'endpoint.credentials_replaced', data: credentials },
    ];
    expect(stateAfter(endpointDecider, events)).toEqual({
      ...endpointConfigured({
        settings: sftpSettings({ host_key_sha256: HOST_KEY }),
        ...credentials,
        bandwidth: null,
      }),
      status: 'configured',
      paused: true,
      unreachable_since: T1,
      announced_host_keys: [],
    });
  });

  it('keeps only id and name of a removed endpoint', () => {
    const { endpoint_id, name } = endpointConfigured();
    expect(stateAfter(endpointDecider, [configured, removed, paused, pinned])).toEqual({
      status: 'removed',
      endpoint_id,
      name,
    });
  });

  it('never throws, whatever was stored', () => {
    const types = [
      'configured',
      'updated',
      'credentials_replaced',
      'paused',
      'resumed',
      'removed',
      'connectivity_lost',
      'connectivity_restored',
      'host_key_announced',
    ];
    fc.assert(
      fc.property(
        fc.constantFrom(...STATUSES),
        fc.constantFrom(...types, 'else'),
        fc.anything(),
        (status, type, data) => {
          endpointDecider.evolve(stateAfter(endpointDecider, HISTORIES[status]), {
            type: `endpoint.${type}`,
            data,
          });
        },
      ),
    );
  });
});
