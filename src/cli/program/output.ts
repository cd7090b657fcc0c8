import { stripVTControlCharacters } from 'node:util';
import { terminal } from './terminal.ts';

/** The reader of stdout has closed it, as `head` does. The command only cleans up. */
export class OutputClosed extends Error {
  override readonly name = 'OutputClosed';
}

/**
 * Keeps the first error of stdout, for `write` to throw. An error that is thrown in the handler
 * would end the process before the command has cleaned up. Without stderr, only hints are lost.
 * Call it once in a command, before anything is written.
 */
export function watchOutput(): void {
  const command = terminal();
  command.stdout.on('error', (error) => {
    command.outputError ??= error;
  });
  command.stderr.on('error', () => undefined);
}

/**
 * Writes a line, or several, to stdout and waits until stdout takes it. Throws as `write` does.
 * Foreign text may hold escape sequences: a terminal must not obey them.
 */
export function print(text: string): Promise<void> {
  return write(`${visibleLines(text)}\n`);
}

/**
 * Writes to stdout and waits until stdout takes it. Throws OutputClosed, or the system's error if
 * stdout has failed otherwise.
 */
export async function write(text: string): Promise<void> {
  const command = terminal();
  if (command.outputError === null)
    await new Promise<void>((resolve) => {
      command.stdout.write(text, (error) => {
        command.outputError ??= error ?? null;
        resolve();
      });
    });
  if (command.outputError?.code === 'EPIPE') throw new OutputClosed();
  if (command.outputError) throw command.outputError;
}

export interface PrintQueue {
  add(print: () => Promise<void>): void;
  /** Waits until all is printed. Throws as `write` does. */
  printed(): Promise<void>;
}

/**
 * Creates a queue for work that reports its progress and does not wait for stdout. If stdout is
 * closed, the work completes first: only `printed` throws.
 */
export function createPrintQueue(): PrintQueue {
  let last = Promise.resolve();
  return {
    add(print) {
      last = last.then(print);
      // A rejection without a handler ends the process in the middle of the work.
      last.catch(() => undefined);
    },
    printed: () => last,
  };
}

/** Prints one line of JSON. Bigints become decimal strings. */
export function printJson(value: unknown): Promise<void> {
  const json = JSON.stringify(value, (_, item) => (typeof item === 'bigint' ? String(item) : item));
  return write(`${json.replace(/\p{Cc}/gu, escaped)}\n`);
}

/** JSON leaves control characters from U+007F on as they are. */
function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** Writes a hint for people to stderr. */
export function note(text: string): void {
  terminal().stderr.write(`${visibleLines(text)}\n`);
}

type Cell = string | number | bigint | null;

/** The columns of a list, by their headings, in order. */
export type Columns<Row> = Record<string, (row: Row) => Cell>;

/** Prints aligned columns, one line a row. Null is shown as a hyphen. */
export async function printTable<Row>(
  columns: Columns<Row>,
  rows: readonly Row[],
  whenEmpty: string,
): Promise<void> {
  if (rows.length === 0) return note(whenEmpty);
  const headers = Object.keys(columns);
  const lines = [headers, ...rows.map((row) => Object.values(columns).map((of) => cell(of(row))))];
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

function visibleLines(text: string): string {
  return text.split('\n').map(visible).join('\n');
}

/**
 * Removes control characters and escape sequences from foreign text, so that the terminal does not
 * obey them, and so that it stays on one line.
 */
export function visible(text: string): string {
  return stripVTControlCharacters(text).replace(/\p{Cc}/gu, '?');
}

/** Uses the next unit as soon as a rounded value would reach it: no `1024.0 KiB`. */
export function bytes(count: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = count;
  let power = 0;
  for (; power < units.length - 1 && Number(value.toFixed(1)) >= 1024; power++) value /= 1024;
  return `${power === 0 ? count : value.toFixed(1)} ${units[power]}`;
}

export function seconds(count: number): string {
  if (count < 100) return `${Math.ceil(count)} s`;
  return count < 6_000 ? `${Math.ceil(count / 60)} min` : `${(count / 3_600).toFixed(1)} h`;
}
