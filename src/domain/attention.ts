/*
 * What needs an operator's attention. *Home*, the counts in the navigation and the lists with
 * `?state=` of the console judge by these rules, and so does `waybill status`.
 * docs/operators.md#what-needs-attention lists them. They judge what the API answers. This file
 * imports nothing, because it is also part of the code that a browser loads.
 */

/** `problem`: an operator must act now. `warning`: an operator must act soon. */
export type Severity = 'problem' | 'warning';

/** Each rule, and how bad it is if it applies. */
export const SEVERITY = {
  /** Recent transfers failed, and were not retried. */
  transfers_failed: 'problem',
  /** Pending or queued transfers were created long ago. */
  transfers_waiting: 'warning',
  endpoint_unreachable: 'problem',
  endpoint_rejects_sign_in: 'problem',
  /** The server shows a host key or a certificate that is not trusted, so each transfer fails. */
  endpoint_not_trusted: 'problem',
  /** The first failures in a row: the server may answer the next probe. */
  endpoint_probe_failed: 'warning',
  endpoint_host_key_not_accepted: 'warning',
  endpoint_host_key_expires_soon: 'warning',
  endpoint_announces_host_key: 'warning',
  flow_failing: 'problem',
  flow_late: 'problem',
  deliveries_failed: 'problem',
  no_mover: 'problem',
  /**
   * A consumer of the log does not run, or is far behind. Also the latter is a problem: only the
   * process that runs a consumer knows whether it is slow or fails.
   */
  consumer_behind: 'problem',
  key_expires_soon: 'warning',
} as const satisfies Record<string, Severity>;

export type Rule = keyof typeof SEVERITY;

const HOUR_MS = 3_600_000;

/** A transfer that waits for longer needs a look: a retry, a paused endpoint, or a long queue. */
export const WAITED_MINUTES = 15;

/** A flow that is due for longer does not run: the process that lists folders is away or stuck. */
export const FLOW_LATE_MS = 5 * 60_000;

/** A consumer that is as far behind, or further, shows old states. */
export const CONSUMER_SLOW_SECONDS = 60;

/** How long before its end an API key or an accepted host key expires soon. */
export const EXPIRING_SOON_DAYS = 7;
export const EXPIRING_SOON_MS = EXPIRING_SOON_DAYS * 24 * HOUR_MS;

/** How long failed transfers need attention, in hours. */
export const RECENT_HOURS = 24;

/** The states in which a transfer waits. */
export const WAITING_STATUSES = ['pending', 'queued'] as const;

/**
 * Returns since when failures count, ISO 8601: for `RECENT_HOURS`, from a full hour on. A calendar
 * day would hide the evening after midnight.
 */
export function recentSince(): string {
  return new Date(Math.floor(Date.now() / HOUR_MS - RECENT_HOURS) * HOUR_MS).toISOString();
}

/** Returns how many transfers have failed, without those that were retried. */
export function notRetried(summary: { by_status: { failed: number }; retried: number }): number {
  return summary.by_status.failed - summary.retried;
}

/** Returns until when a transfer that waits for long was created, ISO 8601. */
export function waitingUntil(): string {
  return new Date(Date.now() - WAITED_MINUTES * 60_000).toISOString();
}

interface EndpointFacts {
  unreachable_since: string | null;
  health: {
    error: { code: string } | null;
    fingerprint: string | null;
    last_success_at: string | null;
  } | null;
  /** Missing if the protocol has no host keys. */
  host_keys?: AcceptedHostKey[] | null;
  announced_host_keys?: unknown[];
  /** Missing or null without a hop. */
  via?: { host_keys?: AcceptedHostKey[] | null } | null;
}

interface AcceptedHostKey {
  sha256: string;
  expires_at: string | null;
}

/** Whether transfers can reach an endpoint: the rule that applies, or what is known without one. */
export type EndpointHealth =
  | Exclude<Extract<Rule, `endpoint_${string}`>, 'endpoint_announces_host_key'>
  | 'reachable'
  | 'not_tried';

const NOT_TRUSTED = ['host_key_mismatch', 'tls_error'];

/** Returns the worst that is known of an endpoint. A new host key is apart: see `announces`. */
export function healthOf(endpoint: EndpointFacts): EndpointHealth {
  const { health, host_keys, unreachable_since } = endpoint;
  if (unreachable_since !== null) return 'endpoint_unreachable';
  if (host_keys?.length === 0) return 'endpoint_host_key_not_accepted';
  if (health?.error?.code === 'auth_failed') return 'endpoint_rejects_sign_in';
  if (health?.error && NOT_TRUSTED.includes(health.error.code)) return 'endpoint_not_trusted';
  if (health?.error) return 'endpoint_probe_failed';
  if (hostKeyExpiresSoon(endpoint)) return 'endpoint_host_key_expires_soon';
  return health?.last_success_at ? 'reachable' : 'not_tried';
}

/**
 * Returns true if the key that the server shows is accepted only for some more days, or all keys of
 * its jump host are: a probe does not say which one that host shows.
 */
function hostKeyExpiresSoon({ health, host_keys, via }: EndpointFacts): boolean {
  const shown = host_keys?.find(({ sha256 }) => sha256 === health?.fingerprint);
  const ofHop = via?.host_keys ?? [];
  return (
    (shown !== undefined && isSoonOver(shown)) || (ofHop.length > 0 && ofHop.every(isSoonOver))
  );
}

function isSoonOver({ expires_at }: AcceptedHostKey): boolean {
  return expires_at !== null && Date.parse(expires_at) - Date.now() < EXPIRING_SOON_MS;
}

/** Returns true if the verified server has announced a host key that is not accepted. */
export function announces({ announced_host_keys }: EndpointFacts): boolean {
  return (announced_host_keys ?? []).length > 0;
}

/** Returns true if the flow did not run when it was due. */
export function isLate({
  failing,
  delayed_by,
  next_run_at,
}: {
  failing: object | null;
  delayed_by: string | null;
  next_run_at: string | null;
}): boolean {
  if (failing !== null || delayed_by !== null || next_run_at === null) return false;
  return isOverdue(next_run_at);
}

/** Returns true if a run that is due since then should have begun. */
export function isOverdue(due: string): boolean {
  return Date.now() - Date.parse(due) > FLOW_LATE_MS;
}

/** Returns true if a consumer does not run, or is far behind the end of the log. */
export function isBehind(consumer: { state: string; lag_seconds: number }): boolean {
  return consumer.state !== 'running' || consumer.lag_seconds >= CONSUMER_SLOW_SECONDS;
}

export function expiresSoon(key: { status: string; expiring_soon: boolean }): boolean {
  return key.status === 'active' && key.expiring_soon;
}
