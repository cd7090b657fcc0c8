import { useLocation } from 'preact-iso/router';
import { ERROR_CODES, reasonOf } from '../../../api/error-reasons.ts';
import { DayRange } from '../../../components/forms/day-field.tsx';
import { FilterSelect } from '../../../components/forms/filter-select.tsx';
import { MoreFilters } from '../../../components/forms/more-filters.tsx';
import { SearchField } from '../../../components/forms/search-field.tsx';
import { addressOf, type View } from '../filter.ts';
import { CHANGEABLE, labelOf, STATUSES } from '../states.tsx';

const isRetryable = (status?: string) => CHANGEABLE.retry.some((known) => known === status);

const TRANSFER_ID = /^txr_[0-9A-Z]{26}$/;

/** Filters of the list; each change goes into the address. A transfer id opens that transfer. */
export function Filters({ view }: { view: View }) {
  const { route } = useLocation();
  const { filter, order } = view;
  const apply = (changes: Record<string, string>) => route(addressOf(view, changes));

  // No transfer in another state matches a reason of failure, or can be retried.
  const applyStatus = (status: string) =>
    apply({
      status,
      ...(status !== 'failed' && { error_code: '', error_endpoint_id: '' }),
      ...(!isRetryable(status) && { retried: '' }),
    });

  function search(text: string): void {
    const q = text.trim();
    if (TRANSFER_ID.test(q)) route(`/console/transfers/${q}`);
    else apply({ q });
  }

  const { status, error_code, retried, from_date, to_date } = filter;
  const set = [status, error_code, retried, from_date, to_date].filter((it) => it !== undefined);

  return (
    <search>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <SearchField
          label="Search"
          value={filter.q ?? ''}
          placeholder="File, path, metadata or id"
          onSearch={search}
        />
        <MoreFilters set={set.length}>
          <FilterSelect
            label="State"
            value={filter.status}
            options={STATUSES.map((status) => [status, labelOf(status)])}
            onChange={applyStatus}
          />
          {(filter.status === 'failed' || filter.error_code) && (
            <FilterSelect
              label="Reason"
              value={filter.error_code}
              options={ERROR_CODES.map((code) => [code, reasonOf(code).label])}
              wide
              onChange={(error_code) => apply({ error_code })}
            />
          )}
          {(isRetryable(filter.status) || filter.retried !== undefined) && (
            <FilterSelect
              label="Retries"
              value={filter.retried?.toString()}
              options={[
                ['false', 'Not retried'],
                ['true', 'Retried'],
              ]}
              onChange={(retried) => apply({ retried })}
            />
          )}
          <label>
            <span>Order</span>
            <select
              value={order}
              onChange={({ currentTarget }) => apply({ sort: currentTarget.value })}
            >
              <option value="-created_at">Newest first</option>
              <option value="created_at">Oldest first</option>
            </select>
          </label>
          <DayRange labels={['Created from', 'Created to']} filter={filter} onChange={apply} />
        </MoreFilters>
      </form>
    </search>
  );
}
