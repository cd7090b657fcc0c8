import { stripVTControlCharacters } from 'node:util';
import { terminal } from './terminal.ts';

/** The reader of stdout has closed it, as `head` does. The command only cleans up. */
export class OutputClosed extends Error {
  override readonly name = 'OutputClosed';
}

/** Notices when stdout is closed. Call it once in a command, before anything is written. */
export function watchOutput(): void {
  const command = terminal();
  for (const stream of [command.stdout, command.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      if (stream === command.stdout) command.outputClosed = true;
    });
  }
}

/** Writes a line to stdout and waits until stdout takes it. Throws OutputClosed. */
export function print(text: string): Promise<void> {
  return write(`${text}\n`);
}

/** Writes to stdout and waits until stdout takes it. Throws OutputClosed. */
export async function write(text: string): Promise<void> {
  const { outputClosed, stdout } = terminal();
  if (outputClosed) throw new OutputClosed();
  await new Promise<void>((resolve) => stdout.write(text, () => resolve()));
}

/** Prints one line of JSON. Bigints become decimal strings. */
export function printJson(value: unknown): Promise<void> {
  return print(
    JSON.stringify(value, (_, item) => (typeof item === 'bigint' ? String(item) : item)),
  );
}

/** Writes a hint for people to stderr. */
export function note(text: string): void {
  terminal().stderr.write(`${text}\n`);
}

type Cell = string | number | bigint | null;

/** Prints aligned columns. Null is shown as a hyphen. */
export async function printTable(
  headers: string[],
  rows: Cell[][],
  whenEmpty: string,
): Promise<void> {
  if (rows.length === 0) return note(whenEmpty);
  const lines = [headers, ...rows.map((row) => row.map(cell))];
  const widths = headers.map((_, column) =>
    Math.max(...lines.map((line) => line[column]?.length ?? 0)),
  );
  for (const line of lines)
    await print(
      line
        .map((text, column) => text.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    );
}

/** Prints names and values, one pair a line. */
export async function printFacts(facts: Record<string, Cell>): Promise<void> {
  const width = Math.max(...Object.keys(facts).map((name) => name.length)) + 2;
  for (const [name, value] of Object.entries(facts))
    await print(`${name.padEnd(width)}${cell(value)}`);
}

function cell(value: Cell): string {
  return value === null ? '-' : visible(String(value));
}

/**
 * Removes control characters and escape sequences from foreign text, so that the terminal does not
 * obey them.
 */
export function visible(text: string): string {
  return stripVTControlCharacters(text).replace(/\p{Cc}/gu, '?');
}

export function bytes(count: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(count, 1)) / 10));
  return `${power === 0 ? count : (count / 1024 ** power).toFixed(1)} ${units[power]}`;
}

export function seconds(count: number): string {
  if (count < 100) return `${Math.ceil(count)} s`;
  return count < 6_000 ? `${Math.ceil(count / 60)} min` : `${(count / 3_600).toFixed(1)} h`;
}
