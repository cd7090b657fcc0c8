import type { Report } from '../report.ts';
import { hashOf, type LoggedEvent } from './event.ts';

const ID = /^evt_[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

interface Link {
  revision: number;
  id: string;
  occurredAt: string;
  hash: string;
}

/**
 * Checks each stream: revisions without a gap, ids that rise, times that never decrease, and
 * `prev_hash` equal to the hash of the event before. Returns the event's own hash.
 */
export function createChainCheck(report: Report): (event: LoggedEvent) => string {
  const last = new Map<string, Link>();
  const ids = new Set<string>();

  return (event) => {
    const { stream, revision, id, metadata } = event;
    const before = last.get(stream) ?? null;
    const wrong = (check: string, detail: string) =>
      report.finding(check, `${stream} revision ${revision} (${id})`, detail);
    const expected = before === null ? 0 : before.revision + 1;

    if (revision !== expected) wrong('log.revisions', `revision ${expected} was expected`);
    if (!ID.test(id)) wrong('log.ids', 'the id is malformed');
    if (ids.has(id)) wrong('log.ids', 'another event has the same id');
    if (before !== null && id <= before.id)
      wrong('log.ids', `the id is not greater than ${before.id}`);
    if (before !== null && metadata.occurred_at < before.occurredAt)
      wrong('log.times', `it occurred before ${before.occurredAt}`);
    if (metadata.prev_hash !== (before?.hash ?? null)) {
      wrong(
        'log.chain',
        `prev_hash is ${metadata.prev_hash}, and the event before has ${before?.hash ?? 'none'}`,
      );
    }

    const hash = hashOf(event);
    ids.add(id);
    last.set(stream, { revision, id, occurredAt: metadata.occurred_at, hash });
    report.count('events');
    report.count('streams', before === null ? 1 : 0);
    return hash;
  };
}
