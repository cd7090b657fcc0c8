import {
  EXPIRING_SOON_DAYS,
  notRetried,
  RECENT_HOURS,
  WAITED_MINUTES,
} from '../../../domain/attention.ts';
import type { Endpoint, Movers, TransferSummary } from '../../api/api-types.ts';
import { urlOf } from '../../api/client.ts';
import { COUNTED_TO } from '../../api/limits.ts';
import {
  announcing,
  behind,
  doubtful,
  expiring,
  failing,
  late,
  notTrusted,
  rejecting,
  toneOf,
  unreachable,
} from '../../attention.ts';
import { shownHealthOf } from '../../components/values/endpoint-health.tsx';
import { distance } from '../../components/values/time.tsx';
import { duration, many } from '../../components/values/units.ts';
import type { Overview, Part } from '../../overview.tsx';
import type { Filter } from '../transfers/filter.ts';
import type { Waiting } from './waiting.ts';

const SHOWN = 5;

/** Something that needs attention, with the page that helps. */
export interface Finding {
  tone: 'bad' | 'warning';
  title: string;
  items: Item[];
  link: { href: string; label: string };
}

export interface Item {
  name: string;
  href?: string;
  detail: string;
}

export interface Check {
  /** What is checked, such as `endpoints`. */
  name: string;
  part: Part<unknown>;
  findings: Finding[];
  /** Said if there are no findings. */
  fine: string;
}

/** Checks all parts that the session may read. */
export function checksOf(
  overview: Overview,
  movers: Part<Movers>,
  waiting: Part<Waiting[]>,
): Check[] {
  const checks = [
    transfers(overview),
    waitingOf(waiting),
    endpoints(overview),
    flows(overview),
    deliveries(overview),
    moversOf(movers),
    consumers(overview),
    keys(overview),
  ];
  return checks.filter(({ part }) => part !== null);
}

/** Returns the address of the list of the recent transfers. */
export function listOf(recent: Overview['recent'], filter: Filter = {}): string {
  return urlOf('/console/transfers', { query: { ...filter, ...recent } });
}

function transfers({ recent, summary }: Overview): Check {
  const failed = summary?.data ? notRetried(summary.data) : 0;
  const retried = summary?.data?.retried ?? 0;
  return {
    name: 'transfers',
    part: summary,
    findings: found(failed, {
      tone: toneOf('transfers_failed'),
      title: `${many(failed, 'transfer')} failed in ${RECENT_HOURS} hours`,
      items: [
        ...timesOf(summary?.data?.failures ?? []),
        ...(retried > 0
          ? [
              {
                name: many(retried, 'other'),
                href: listOf(recent, { status: 'failed', retried: true }),
                detail: `${retried === 1 ? 'was' : 'were'} retried`,
              },
            ]
          : []),
      ],
      link: {
        href: listOf(recent, { status: 'failed', retried: false }),
        label: 'Show failed transfers',
      },
    }),
    fine:
      retried > 0
        ? `Each transfer that failed in ${RECENT_HOURS} hours was retried.`
        : `No transfer failed in ${RECENT_HOURS} hours.`,
  };
}

/** Says when the first and the latest of the failures were. */
function timesOf(failures: TransferSummary['failures']): Item[] {
  const first = failures.map(({ first_failed_at }) => first_failed_at).sort()[0];
  const latest = failures.map(({ last_failed_at }) => last_failed_at).sort();
  if (first === undefined) return [];
  return [
    {
      name: 'First failure',
      detail: `${distance(first)}, latest ${distance(latest.at(-1) ?? first)}`,
    },
  ];
}

function waitingOf(part: Part<Waiting[]>): Check {
  return {
    name: 'waiting transfers',
    part,
    findings: (part?.data ?? []).flatMap(({ filter, total, oldest }) =>
      found(total, {
        tone: toneOf('transfers_waiting'),
        title: `${many(total, `${filter.status} transfer`)} ${total === 1 ? 'has' : 'have'} waited for more than ${WAITED_MINUTES} minutes`,
        items: oldest
          ? [
              {
                name: oldest.file_name,
                href: `/console/transfers/${oldest.id}`,
                detail: `the oldest, created ${distance(oldest.created_at)}. ${oldest.waiting_for?.message ?? ''}`,
              },
            ]
          : [],
        link: {
          href: urlOf('/console/transfers', { query: { ...filter } }),
          label: `Show ${filter.status} transfers, oldest first`,
        },
      }),
    ),
    fine: `No transfer has waited for more than ${WAITED_MINUTES} minutes.`,
  };
}

function flows({ flows: part }: Overview): Check {
  const failed = part?.data ? failing(part.data) : [];
  const overdue = part?.data ? late(part.data) : [];
  const address = '/console/flows';
  return {
    name: 'flows',
    part,
    findings: [
      ...found(failed.length, {
        tone: toneOf('flow_failing'),
        title: `${many(failed.length, 'flow')} cannot list ${failed.length === 1 ? 'its folder' : 'their folders'}`,
        items: failed.map(({ id, name, failing }) => ({
          name,
          href: `${address}/${id}`,
          detail: failing
            ? `first failed ${distance(failing.since)}: ${failing.error.message}`
            : '',
        })),
        link: { href: `${address}?state=failing`, label: 'Show failing flows' },
      }),
      ...found(overdue.length, {
        tone: toneOf('flow_late'),
        title: `${many(overdue.length, 'flow')} did not run when due`,
        items: overdue.map(({ id, name, next_run_at }) => ({
          name,
          href: `${address}/${id}`,
          detail: `was due ${distance(next_run_at as string)}. Check that a process with the role monitor runs`,
        })),
        link: { href: `${address}?state=late`, label: 'Show late flows' },
      }),
    ],
    fine: 'Every flow lists its folder.',
  };
}

function endpoints({ endpoints: part }: Overview): Check {
  const all = part?.data ?? { data: [] };
  const down = unreachable(all);
  const locked = rejecting(all);
  const inDoubt = doubtful(all);
  const distrusted = notTrusted(all);
  const withNewKey = announcing(all);
  const address = '/console/settings/endpoints';
  const itemOf = (endpoint: Endpoint): Item => ({
    name: endpoint.name,
    href: `${address}/${endpoint.id}`,
    detail: [
      endpoint.unreachable_since
        ? `went down ${distance(endpoint.unreachable_since)}`
        : [shownHealthOf(endpoint).label.toLowerCase(), since(endpoint, 'first')]
            .filter(Boolean)
            .join(', '),
      endpoint.health?.error?.message,
    ]
      .filter(Boolean)
      .join(': '),
  });
  return {
    name: 'endpoints',
    part,
    findings: [
      ...found(down.length, {
        tone: toneOf('endpoint_unreachable'),
        title: `${many(down.length, 'endpoint')} ${down.length === 1 ? 'is' : 'are'} unreachable`,
        items: down.map(itemOf),
        link: { href: `${address}?state=unreachable`, label: 'Show unreachable endpoints' },
      }),
      ...found(locked.length, {
        tone: toneOf('endpoint_rejects_sign_in'),
        title: `${many(locked.length, 'endpoint')} ${locked.length === 1 ? 'rejects' : 'reject'} the sign-in`,
        items: locked.map((endpoint) => ({
          name: endpoint.name,
          href: `${address}/${endpoint.id}`,
          detail: `${since(endpoint, 'first rejected') ?? 'transfers fail'}: check its user name and its password or key`,
        })),
        link: { href: `${address}?state=rejecting`, label: 'Show endpoints that reject it' },
      }),
      ...found(distrusted.length, {
        tone: toneOf('endpoint_not_trusted'),
        title: `${many(distrusted.length, 'server')} ${distrusted.length === 1 ? 'is' : 'are'} not trusted`,
        items: distrusted.map(itemOf),
        link: { href: `${address}?state=untrusted`, label: 'Show servers that are not trusted' },
      }),
      ...found(inDoubt.length, {
        tone: toneOf('endpoint_probe_failed'),
        title: `${many(inDoubt.length, 'endpoint')} may not work`,
        items: inDoubt.map(itemOf),
        link: { href: `${address}?state=doubtful`, label: 'Show endpoints in doubt' },
      }),
      ...found(withNewKey.length, {
        tone: toneOf('endpoint_announces_host_key'),
        title: `${many(withNewKey.length, 'endpoint')} ${withNewKey.length === 1 ? 'announces' : 'announce'} a new host key`,
        items: withNewKey.map(({ id, name }) => ({
          name,
          href: `${address}/${id}`,
          detail: 'compare it, then accept it',
        })),
        link: { href: `${address}?state=announcing`, label: 'Show endpoints with new keys' },
      }),
    ],
    fine: 'No endpoint is unreachable or rejects the sign-in, and each server is trusted.',
  };
}

/** Says when the first error in a row was. Null if that is not known. */
function since({ health }: Endpoint, words: string): string | null {
  return health?.error_since ? `${words} ${distance(health.error_since)}` : null;
}

function deliveries({ failedDeliveries: part }: Overview): Check {
  const total = part?.data?.pagination.total ?? 0;
  const newest = part?.data?.data[0];
  const more = total >= COUNTED_TO ? '+' : '';
  return {
    name: 'deliveries',
    part,
    findings: found(total, {
      tone: toneOf('deliveries_failed'),
      title: `${total.toLocaleString('en')}${more} webhook ${total === 1 ? 'delivery' : 'deliveries'} failed`,
      items: newest
        ? [
            {
              name: newest.event_type,
              href: `/console/webhooks/${newest.webhook_id}/deliveries/${newest.id}`,
              detail: `the newest, created ${distance(newest.created_at)}`,
            },
          ]
        : [],
      link: { href: '/console/webhooks/failed-deliveries', label: 'Show failed deliveries' },
    }),
    fine: 'No webhook delivery has failed.',
  };
}

function moversOf(part: Part<Movers>): Check {
  return {
    name: 'movers',
    part,
    findings: found(part?.data?.data.length === 0 ? 1 : 0, {
      tone: toneOf('no_mover'),
      title: 'No mover is running',
      items: [{ name: 'Transfers wait', detail: 'until a process with the role mover starts' }],
      link: { href: '/console/operations', label: 'Open Operations' },
    }),
    fine: 'A mover is running.',
  };
}

function consumers({ consumers: part }: Overview): Check {
  const lagging = part?.data ? behind(part.data) : [];
  return {
    name: 'consumers',
    part,
    findings: found(lagging.length, {
      tone: toneOf('consumer_behind'),
      title: `${many(lagging.length, 'consumer')} of the log ${lagging.length === 1 ? 'is' : 'are'} behind`,
      items: lagging.map(({ name, state, detail, lag_seconds }) => ({
        name,
        detail:
          state === 'failed'
            ? `failed: ${detail}`
            : `${state === 'stopped' ? 'stopped, ' : ''}${duration(lag_seconds)} behind`,
      })),
      link: { href: '/console/operations', label: 'Open Operations' },
    }),
    fine: 'All consumers of the log keep up.',
  };
}

function keys({ keys: part }: Overview): Check {
  const ending = part?.data ? expiring(part.data) : [];
  return {
    name: 'API keys',
    part,
    findings: found(ending.length, {
      tone: toneOf('key_expires_soon'),
      title: `${many(ending.length, 'API key')} ${ending.length === 1 ? 'expires' : 'expire'} within ${EXPIRING_SOON_DAYS} days`,
      items: ending.map(({ name, expires_at }) => ({
        name,
        detail: `expires ${distance(expires_at as string)}`,
      })),
      link: { href: '/console/settings/api-keys?state=expiring', label: 'Show expiring keys' },
    }),
    fine: `No API key expires within ${EXPIRING_SOON_DAYS} days.`,
  };
}

/** Returns the finding if there is one. It names the first few. */
function found(count: number, finding: Finding): Finding[] {
  if (count === 0) return [];
  const { items } = finding;
  const more = items.length - SHOWN;
  return [
    {
      ...finding,
      items: more > 0 ? [...items.slice(0, SHOWN), { name: `${more} more`, detail: '' }] : items,
    },
  ];
}
