import { useLocation } from 'preact-iso/router';
import type { AuditEventType, AuditKind } from '../../api/api-types.ts';
import { urlOf } from '../../api/client.ts';
import { AUDIT_KINDS, AUDIT_TITLES } from '../../api/event-words.ts';
import { DayRange } from '../../components/forms/day-field.tsx';
import { FilterSelect } from '../../components/forms/filter-select.tsx';
import { MoreFilters } from '../../components/forms/more-filters.tsx';
import { SearchField } from '../../components/forms/search-field.tsx';

export const ADDRESS = '/console/audit';

const KINDS = Object.keys(AUDIT_KINDS) as AuditKind[];
const TYPES = Object.keys(AUDIT_TITLES) as AuditEventType[];

/** The query of `GET /v1/audit`. */
export interface Filter {
  kind?: AuditKind;
  type?: AuditEventType;
  actor?: string;
  subject?: string;
  from_date?: string;
  to_date?: string;
}

export function readFilter(query: Record<string, string>): Filter {
  const { actor, subject, from_date, to_date } = query;
  const kind = KINDS.find((known) => known === query.kind);
  const type = TYPES.find((known) => known === query.type);
  return {
    ...(kind && { kind }),
    ...(type && { type }),
    ...(actor && { actor }),
    ...(subject && { subject }),
    ...(from_date && { from_date }),
    ...(to_date && { to_date }),
  };
}

/** Filters of the audit log; each change goes into the address. */
export function Filters({ filter }: { filter: Filter }) {
  const { route } = useLocation();
  const types = TYPES.filter((type) => !filter.kind || type.startsWith(`${filter.kind}.`));

  const apply = (changes: Record<string, string>) =>
    route(urlOf(ADDRESS, { query: { ...filter, ...changes } }));
  /** A type of another kind would match nothing. */
  const applyKind = (kind: string) =>
    apply({ kind, ...(kind && !filter.type?.startsWith(`${kind}.`) && { type: '' }) });

  const { kind, type, actor, from_date, to_date } = filter;
  const set = [kind, type, actor, from_date, to_date].filter((it) => it !== undefined);

  return (
    <search>
      <form class="filters even" onSubmit={(event) => event.preventDefault()}>
        <SearchField
          label="Subject: name or id"
          value={filter.subject ?? ''}
          placeholder="bank"
          onSearch={(subject) => apply({ subject: subject.trim() })}
        />
        <MoreFilters set={set.length}>
          <SearchField
            label="Actor: name or id"
            value={filter.actor ?? ''}
            placeholder="night job"
            onSearch={(actor) => apply({ actor: actor.trim() })}
          />
          <FilterSelect
            label="Kind"
            value={filter.kind}
            options={KINDS.map((kind) => [kind, AUDIT_KINDS[kind]])}
            onChange={applyKind}
          />
          <FilterSelect
            label="Event"
            value={filter.type}
            options={types.map((type) => [type, AUDIT_TITLES[type]])}
            onChange={(type) => apply({ type })}
          />
          <DayRange labels={['From', 'To']} filter={filter} onChange={apply} />
        </MoreFilters>
      </form>
    </search>
  );
}
