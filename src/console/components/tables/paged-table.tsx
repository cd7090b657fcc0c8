import type { ComponentChildren, ComponentProps } from 'preact';
import type { Loaded } from '../../api/use-load.ts';
import { LoadState } from '../feedback/problem.tsx';
import { foundIn, Pager } from './pager.tsx';
import { type Column, Table } from './table.tsx';

interface PagedTableProps<Row> {
  /** A page of the list, as `useLoad` loads it. */
  list: Loaded<{ data: Row[]; pagination: ComponentProps<typeof Pager>['pagination'] }>;
  /** Names the table for screen readers. */
  caption: string;
  columns: Column<Row>[];
  /** Stands in place of a list without rows. */
  empty: ComponentChildren;
}

/** A list in pages: its table, the links to other pages, and why it could not be loaded. */
export function PagedTable<Row extends { id: string }>(props: PagedTableProps<Row>) {
  const { caption, columns, empty } = props;
  const { data } = props.list;
  return (
    <>
      <LoadState of={props.list} found={data ? foundIn(data.pagination) : undefined} />
      {data?.pagination.total === 0 && empty}
      {data && data.data.length > 0 && (
        <Table caption={caption} columns={columns} rows={data.data} id={({ id }) => id} />
      )}
      {data && data.pagination.total > 0 && (
        <Pager pagination={data.pagination} shown={data.data.length} />
      )}
    </>
  );
}
