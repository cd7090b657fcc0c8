import { useEffect, useState } from 'preact/hooks';
import type { Column } from '../../components/table.tsx';
import type { Row } from './columns.tsx';

export interface Selection {
  /** Selected transfers of the page. */
  ids: ReadonlySet<string>;
  /** All transfers that match are selected, on every page. */
  everything: boolean;
  wholePage: boolean;
  selectPage: () => void;
  selectEverything: () => void;
  clear: () => void;
  /** The column of check boxes. */
  column: Column<Row>;
}

/** Keeps the selected rows of a page. The selection is empty when `page` names another one. */
export function useSelection(rows: Pick<Row, 'id'>[], page: string): Selection {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [everything, setEverything] = useState(false);
  const select = (next: string[]) => {
    setChosen(new Set(next));
    setEverything(false);
  };
  const clear = () => select([]);
  useEffect(clear, [page]);
  const all = rows.map(({ id }) => id);
  const ids = new Set(all.filter((id) => chosen.has(id)));
  return {
    ids,
    everything: everything && ids.size > 0,
    wholePage: ids.size > 0 && ids.size === all.length,
    selectPage: () => select(all),
    selectEverything: () => setEverything(true),
    clear,
    column: {
      heading: 'Select',
      kind: 'select',
      cell: ({ id, file_name }) => (
        <label class="pick">
          <input
            type="checkbox"
            checked={ids.has(id)}
            onChange={({ currentTarget: { checked } }) =>
              select(checked ? [...ids, id] : [...ids].filter((other) => other !== id))
            }
          />
          <span class="visually-hidden">Select {file_name}</span>
        </label>
      ),
    },
  };
}
