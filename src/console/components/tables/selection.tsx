import { useEffect, useState } from 'preact/hooks';
import type { Column } from './table.tsx';

export interface Selection<Row> {
  /** Selected rows of the page. */
  ids: ReadonlySet<string>;
  /** All rows that match are selected, on every page. */
  everything: boolean;
  wholePage: boolean;
  selectPage: () => void;
  selectEverything: () => void;
  deselect: (ids: string[]) => void;
  clear: () => void;
  /** The column of check boxes. */
  column: Column<Row>;
}

/**
 * Keeps the selected rows of a page. The selection is empty when `page` names another one. `nameOf`
 * names a row for screen readers.
 */
export function useSelection<Row extends { id: string }>(
  rows: Row[],
  page: string,
  nameOf: (row: Row) => string,
): Selection<Row> {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [everything, setEverything] = useState(false);
  const select = (next: (before: ReadonlySet<string>) => Iterable<string>) => {
    setChosen((before) => new Set(next(before)));
    setEverything(false);
  };
  const clear = () => select(() => []);
  useEffect(clear, [page]);
  const all = rows.map(({ id }) => id);
  const ids = new Set(all.filter((id) => chosen.has(id)));
  return {
    ids,
    everything: everything && ids.size > 0,
    wholePage: ids.size > 0 && ids.size === all.length,
    selectPage: () => select(() => all),
    selectEverything: () => setEverything(true),
    deselect: (out) => select((before) => [...before].filter((id) => !out.includes(id))),
    clear,
    column: {
      heading: 'Select',
      kind: 'select',
      cell: (row) => (
        <label class="pick">
          <input
            type="checkbox"
            checked={ids.has(row.id)}
            onChange={({ currentTarget: { checked } }) =>
              select(() => (checked ? [...ids, row.id] : [...ids].filter((id) => id !== row.id)))
            }
          />
          <span class="visually-hidden">Select {nameOf(row)}</span>
        </label>
      ),
    },
  };
}

/** A check box for all rows of the page. */
export function SelectPage({
  selection: { ids, wholePage, selectPage, clear },
}: {
  selection: Pick<Selection<never>, 'ids' | 'wholePage' | 'selectPage' | 'clear'>;
}) {
  return (
    <label class="choice">
      <input
        type="checkbox"
        checked={wholePage}
        ref={(box) => {
          if (box) box.indeterminate = ids.size > 0 && !wholePage;
        }}
        onChange={wholePage ? clear : selectPage}
      />
      <span>Select page</span>
    </label>
  );
}
