import type { ComponentChildren, Key } from 'preact';

export interface Column<Row> {
  heading: string;
  cell: (row: Row) => ComponentChildren;
  /**
   * `number` aligns at the end. `row` is the row's header: screen readers read it first. `select`
   * has a check box, in the corner of a card.
   */
  kind?: 'number' | 'row' | 'select';
  /** The cell of a row's header needs the heading before it where a row is a card. */
  headed?: boolean;
}

interface TableProps<Row> {
  /** Names the table for screen readers. */
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  id: (row: Row) => Key;
}

/** A table that becomes a list of cards on a narrow screen. */
export function Table<Row>({ caption, columns, rows, id }: TableProps<Row>) {
  return (
    <table>
      <caption class="visually-hidden">{caption}</caption>
      <thead>
        <tr>
          {columns.map(({ heading, kind }) => (
            <th key={heading} scope="col" class={kind}>
              {kind === 'select' ? <span class="visually-hidden">{heading}</span> : heading}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={id(row)}>
            {columns.map(({ heading, cell, kind, headed }) =>
              kind === 'row' ? (
                <th
                  key={heading}
                  scope="row"
                  class={headed ? 'headed' : undefined}
                  data-heading={heading}
                >
                  {cell(row)}
                </th>
              ) : (
                <td key={heading} class={kind} data-heading={heading}>
                  {cell(row)}
                </td>
              ),
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
