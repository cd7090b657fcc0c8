type Cell = string | number | null;

/** Prints a table: text aligned left, figures right, `-` for null. */
export function printTable(title: string, header: string[], rows: Cell[][]): void {
  const shown = rows.map((row) => row.map(show));
  const widths = header.map((name, column) =>
    Math.max(name.length, ...shown.map((row) => row[column]?.length ?? 0)),
  );
  const isText = header.map((_, column) =>
    rows.some((row) => typeof row[column] === 'string' && !/^[\d.,]/.test(row[column])),
  );
  const line = (cells: string[]) =>
    cells
      .map((cell, column) =>
        isText[column] ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd();
  console.log(`\n${title}\n`);
  console.log(line(header));
  console.log(widths.map((width) => '-'.repeat(width)).join('  '));
  for (const row of shown) console.log(line(row));
}

/** Formats a cell: three significant digits, thousands with commas. */
function show(cell: Cell): string {
  if (cell === null) return '-';
  if (typeof cell === 'string') return cell;
  const digits = Number.isInteger(cell) || Math.abs(cell) >= 100 ? 0 : Math.abs(cell) >= 10 ? 1 : 2;
  return cell.toLocaleString('en', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

export function ratio(ours: number, theirs: number): string {
  return `${(ours / theirs).toFixed(2)}x`;
}
