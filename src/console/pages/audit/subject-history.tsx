import type { ComponentChildren } from 'preact';
import type { AuditItem, AuditKind } from '../../api/api-types.ts';
import { call, urlOf } from '../../api/client.ts';
import { LONGEST_PAGE } from '../../api/limits.ts';
import { useLoad } from '../../api/use-load.ts';
import { LoadState } from '../../components/feedback/problem.tsx';
import { May } from '../../session.tsx';
import { AuditTable } from './events.tsx';
import { ADDRESS } from './filters.tsx';

const SHOWN = 5;
const LOOK_MS = 10_000;

interface SubjectHistoryProps {
  kind: AuditKind;
  id: string;
  /** Another value loads the events again, such as after a change of the subject. */
  stamp: unknown;
  /** Renders what the newest events say together, above the list. `all` says that there are no others. */
  children?: (events: AuditItem[], all: boolean) => ComponentChildren;
}

/** Lists what happened to the subject of a page and who did it, for sessions that may read that. */
export function SubjectHistory(props: SubjectHistoryProps) {
  return (
    <May scope="audit:all">
      <History {...props} />
    </May>
  );
}

function History({ kind, id, stamp, children }: SubjectHistoryProps) {
  const of = { kind, subject: id };
  const { data, error, reload } = useLoad(
    (signal) => call('GET /v1/audit', { query: { ...of, limit: LONGEST_PAGE }, signal }),
    [kind, id, stamp],
    LOOK_MS,
  );
  const events = data?.data ?? [];
  return (
    <section class="card" aria-label="History">
      <header class="page-header">
        <h2>History</h2>
        {data && data.pagination.total > SHOWN && (
          <a href={urlOf(ADDRESS, { query: of })}>
            Show all {data.pagination.total.toLocaleString('en')} events
          </a>
        )}
      </header>
      <LoadState of={{ data, error, reload }} />
      {data && children?.(events, !data.pagination.has_more)}
      {events.length > 0 && <AuditTable events={events.slice(0, SHOWN)} ofOne />}
    </section>
  );
}
