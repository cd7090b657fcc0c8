import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { BulkAction, TransferList } from '../../../api/api-types.ts';
import { type Selection, SelectPage } from '../../../components/tables/selection.tsx';
import { May } from '../../../session.tsx';
import type { Row } from '../columns.tsx';
import type { Filter } from '../filter.ts';
import { ACTIONS, type Target } from './bulk-dialog.tsx';

/** Texts of the buttons, which fit a phone. */
const SHORT: Record<BulkAction, string> = {
  retry: 'Retry',
  cancel: 'Cancel',
  set_priority: 'Priority',
};

interface ListBarProps {
  selection: Selection<never>;
  rows: Row[];
  filter: Filter;
  pagination: TransferList['pagination'];
  /** The rows, and how many match, are of the filter before this one. */
  stale: boolean;
  /** Other rows belong on the page; they wait while rows are selected. */
  outdated: boolean;
  reload: () => void;
  onAct: (action: BulkAction, target: Target) => void;
  /** Shown while nothing is selected. */
  children: ComponentChildren;
}

/** The line above the list: selects its rows, and acts on the selected ones. */
export function ListBar({
  selection,
  rows,
  filter,
  pagination: { total, total_is_exact = true },
  stale,
  outdated,
  reload,
  onAct,
  children,
}: ListBarProps) {
  const { ids, everything, wholePage, clear } = selection;
  const selected = rows.filter(({ id }) => ids.has(id));
  const count = selected.length;
  const bar = useRef<HTMLElement>(null);
  const held = useRef(false);
  const matching = `all ${total_is_exact ? '' : 'of at least '}${total.toLocaleString('en')} that match`;

  // The button that was pressed may be gone, and the focus with it.
  useLayoutEffect(() => {
    if (document.activeElement === document.body && (count > 0 || held.current))
      bar.current?.querySelector('input')?.focus({ preventScroll: true });
    held.current = count > 0;
  }, [count > 0, everything]);

  return (
    <section ref={bar} class="list-bar" aria-label="Selection" data-selected={count > 0}>
      <May scope="transfers:write">
        <SelectPage selection={selection} />
      </May>
      <p role="status">{everything ? `Selected ${matching}` : count > 0 && `${count} selected`}</p>
      {wholePage && total > count && !everything && !stale && (
        <button type="button" onClick={selection.selectEverything}>
          Select {matching}
        </button>
      )}
      {count > 0 && (
        <div class="actions">
          {(Object.keys(ACTIONS) as BulkAction[]).map((name) => (
            <button
              type="button"
              key={name}
              aria-label={ACTIONS[name].label}
              onClick={() => onAct(name, everything ? { filter } : { rows: selected })}
            >
              {SHORT[name]}
            </button>
          ))}
          <button type="button" class="ghost" onClick={clear}>
            Clear<span class="visually-hidden"> selection</span>
          </button>
          {outdated && (
            <button type="button" class="ghost" onClick={reload}>
              Update list
            </button>
          )}
        </div>
      )}
      {/* Not seen while rows are selected. A download that is under way goes on, and may fail. */}
      <div class="actions unselected">
        {filter.status === 'failed' && (
          <May scope="transfers:write">
            <button type="button" onClick={() => onAct('retry', { filter })}>
              Retry all
            </button>
          </May>
        )}
        {children}
      </div>
    </section>
  );
}
