import { statSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Pool } from 'undici';
import { alternate } from './alternate.ts';
import { type Bench, runPart } from './bench.ts';
import { untilCompleted } from './event-log.ts';
import { printBareAppends } from './eventstoredb.ts';
import { checkSame, makeFiles } from './files.ts';
import { type BenchPostgres, startPostgres } from './postgres.ts';
import { printProfile, printStatements } from './profile.ts';
import { findRclone, type Rclone, runRclone, writeConfig } from './rclone.ts';
import { type RunningService, startService } from './service.ts';
import { type Protocol, type Side, startSide } from './sides.ts';
import { median } from './statistics.ts';
import { printTable, ratio } from './table.ts';
import { measureProcess, type Usage } from './usage.ts';

const MIB = 1024 * 1024;
/** More files than these are small ones. */
const FEW = 8;
const POSTING_CONNECTIONS = 64;
const ITEMS_PER_BATCH = 1_000;

/** Files of one size that are copied together. */
export interface Cell {
  files: number;
  bytes: number;
}

export const CELLS = {
  one: { files: 1, bytes: 1024 * MIB },
  eight: { files: 8, bytes: 256 * MIB },
  small: { files: 1_000, bytes: 10 * 1024 },
  many: { files: 100_000, bytes: 10 * 1024 },
} satisfies Record<string, Cell>;
export type CellName = keyof typeof CELLS;

/** What a peer has to do: to copy a whole folder to another server. */
export interface Errand {
  bench: Bench;
  rclone: Rclone;
  /** rclone's configuration file. */
  config: string;
  source: Side;
  destination: Side;
  /** Paths on the two servers. */
  from: string;
  to: string;
}

export type Peer = (errand: Errand) => Promise<Usage>;

export interface Contest {
  source: Protocol;
  destination: Protocol;
  cells: readonly CellName[];
  peers: Record<string, Peer>;
}

/** The usage of a process, and of Postgres for its log and tables. */
interface Measured extends Usage {
  postgresSeconds: number | null;
}

export type Row = (string | number | null)[];

type Post = (path: string, request: unknown) => Promise<void>;
/** A way to order transfers. */
type Order = (items: Record<string, string>[], post: Post) => Promise<void>;

const singly: Order = async (items, post) => {
  await Promise.all(items.map((item) => post('/v1/transfers', item)));
};

const inBatches: Order = async (items, post) => {
  for (let start = 0; start < items.length; start += ITEMS_PER_BATCH)
    await post('/v1/batches', { items: items.slice(start, start + ITEMS_PER_BATCH) });
};

const ORDERS = { batch: inBatches, single: singly };

interface Setting extends Omit<Errand, 'from' | 'to'> {
  postgres: BenchPostgres;
  service: RunningService;
  delay: number;
}

/**
 * Copies files between two servers at each delay, beside its peers. Returns the rows of a table.
 */
export async function copySideBySide(
  bench: Bench,
  postgres: BenchPostgres,
  contest: Contest,
): Promise<Row[]> {
  const rclone = await findRclone();
  const rows: Row[] = [];
  for (const delay of bench.options.delays) {
    const measure = (part: Bench) => copyAtDelay({ bench: part, rclone, postgres, delay }, contest);
    rows.push(...(await runPart(bench, measure)));
  }
  return rows;
}

async function copyAtDelay(
  given: Pick<Setting, 'bench' | 'rclone' | 'postgres' | 'delay'>,
  contest: Contest,
): Promise<Row[]> {
  const { bench, rclone, postgres, delay } = given;
  const source = await startSide(bench, rclone, contest.source, 'hospital', delay);
  const destination = await startSide(bench, rclone, contest.destination, 'bank', delay);
  const databaseUrl = await postgres.createDatabase(
    `${contest.source}_${contest.destination}_${delay}`,
  );
  const service = await startService(bench, {
    databaseUrl,
    endpoints: [source.endpoint, destination.endpoint],
  });
  const config = await writeConfig(bench, [source, destination]);
  const rows: Row[] = [];
  for (const name of contest.cells) {
    rows.push(
      ...(await measureCell(
        { ...given, service, source, destination, config },
        name,
        contest.peers,
      )),
    );
  }
  await service.stop();
  if (bench.options.profile) printProfile(service.pid);
  return rows;
}

/** Starts the service's Postgres for a comparison, and prints the rows. */
export async function withPostgres(
  bench: Bench,
  title: string,
  work: (postgres: BenchPostgres) => Promise<Row[]>,
): Promise<void> {
  const rows = await work(await startPostgres(bench));
  const header = [
    'route',
    'files',
    'round trip',
    'who',
    'seconds',
    'MB/s',
    'files/s',
    'speed',
    'CPU s',
    'CPU s/GiB',
    'peak MiB',
  ];
  printTable(`${title}: medians of ${bench.options.runs}`, [...header, 'Postgres CPU s'], rows);
}

/** Copies with `rclone copy` and its own defaults. */
export const rcloneCopy: Peer = ({ rclone, config, source, destination, from, to }) =>
  runRclone(rclone, [
    '--config',
    config,
    'copy',
    `${source.root}/${from}`,
    `${destination.root}/${to}`,
  ]);

async function measureCell(
  setting: Setting,
  name: CellName,
  peers: Record<string, Peer>,
): Promise<Row[]> {
  const { bench, source, destination, postgres } = setting;
  const { runs, scale, profile } = bench.options;
  const { files, bytes } = scaled(CELLS[name], scale);
  const from = `out/${name}`;
  const reference = await fill(setting, from, files, bytes);
  const names = reference.names;
  const logged = postgres.log === null ? 0 : statSync(postgres.log).size;
  const fresh = (to: string, copy: () => Promise<Measured>) => clear(setting, to).then(copy);

  const contestants: Record<string, () => Promise<Measured>> = {};
  const ours = (order: Order) => () =>
    fresh('waybill', () => runWaybill(setting, from, names, order));
  if (files <= FEW) contestants.waybill = ours(singly);
  else for (const by of bench.options.by) contestants[`waybill, ${by}`] = ours(ORDERS[by]);
  for (const [index, [who, copy]] of Object.entries(peers).entries()) {
    const to = `peer-${index}`;
    contestants[who] = () =>
      fresh(to, async () => ({ ...(await copy({ ...setting, from, to })), postgresSeconds: null }));
  }
  const results = await alternate(runs, contestants);
  for (const to of ['waybill', ...Object.keys(peers).map((_, index) => `peer-${index}`)]) {
    await compare(setting, reference.folder, to);
    await clear(setting, to);
  }
  await reference.remove();
  await printBareAppends(bench, files, Math.min(files, POSTING_CONNECTIONS));
  if (profile) printStatements(postgres, logged, files * (runs + 1));
  return rowsOf(results, {
    route: `${source.protocol} -> ${destination.protocol}`,
    files,
    bytes,
    delay: setting.delay,
    peer: Object.keys(peers)[0] as string,
  });
}

function scaled({ files, bytes }: Cell, scale: number): Cell {
  return files > FEW
    ? { files: Math.ceil(files * scale), bytes }
    : { files, bytes: Math.ceil((bytes * scale) / MIB) * MIB };
}

/** Puts files into a folder of the source, and keeps them in a local folder for the comparison. */
async function fill(
  { bench, rclone, config, source }: Setting,
  path: string,
  files: number,
  bytes: number,
) {
  const folder = join(source.folder ?? bench.folder, path);
  await mkdir(folder, { recursive: true });
  const names = await makeFiles(folder, files, bytes);
  if (source.folder === null)
    await runRclone(rclone, ['--config', config, 'copy', folder, `${source.root}/${path}`]);
  return { folder, names, remove: () => rm(folder, { recursive: true }) };
}

async function clear({ rclone, config, destination }: Setting, path: string): Promise<void> {
  if (destination.folder === null) {
    await runRclone(rclone, ['--config', config, 'delete', `${destination.root}/${path}`]).catch(
      () => {},
    );
    return;
  }
  await rm(join(destination.folder, path), { recursive: true, force: true });
  await mkdir(join(destination.folder, path));
}

/** Throws if a copy differs from its source, byte by byte. */
async function compare(
  { rclone, config, destination }: Setting,
  folder: string,
  path: string,
): Promise<void> {
  if (destination.folder !== null) await checkSame(folder, join(destination.folder, path));
  else
    await runRclone(rclone, [
      '--config',
      config,
      'check',
      '--download',
      folder,
      `${destination.root}/${path}`,
    ]);
}

function rowsOf(
  results: Record<string, Measured[]>,
  { route, files, bytes, delay, peer }: Cell & { route: string; delay: number; peer: string },
): Row[] {
  const gibibytes = (files * bytes) / 2 ** 30;
  const size = bytes >= MIB ? `${bytes / MIB} MiB` : `${bytes / 1024} KiB`;
  const peers = median((results[peer] as Measured[]).map(({ seconds }) => seconds));
  return Object.entries(results).map(([who, measured]) => {
    const seconds = median(measured.map((usage) => usage.seconds));
    const cpu = medianOf(measured, 'cpuSeconds');
    const peak = medianOf(measured, 'peakBytes');
    return [
      route,
      `${files} x ${size}`,
      `${delay} ms`,
      who,
      seconds,
      (files * bytes) / 1e6 / seconds,
      files / seconds,
      who === peer ? '' : ratio(peers, seconds),
      cpu,
      cpu === null || files > FEW ? null : cpu / gibibytes,
      peak && peak / MIB,
      medianOf(measured, 'postgresSeconds'),
    ];
  });
}

function medianOf(
  measured: Measured[],
  figure: 'cpuSeconds' | 'peakBytes' | 'postgresSeconds',
): number | null {
  const values = measured.map((usage) => usage[figure]).filter((value) => value !== null);
  return values.length > 0 ? median(values) : null;
}

/** Measures from the first POST until the log has the last completion. */
async function runWaybill(
  { service, source, destination, postgres }: Setting,
  path: string,
  names: string[],
  order: Order,
): Promise<Measured> {
  const { url, headers, log } = service;
  const from = await log.head();
  const postgresBefore = postgres.cpuSeconds();
  const posting = new Pool(url, { connections: POSTING_CONNECTIONS });
  const post: Post = async (path, request) => {
    const answer = await posting.request({
      method: 'POST',
      path,
      headers,
      body: JSON.stringify(request),
    });
    const text = await answer.body.text();
    if (answer.statusCode !== 201) throw new Error(`POST answers ${answer.statusCode}: ${text}`);
  };
  const items = names.map((name) => ({
    source_uri: `${source.protocol}://${source.name}/${path}/${name}`,
    destination_uri: `${destination.protocol}://${destination.name}/waybill/${name}`,
  }));
  const usage = await measureProcess(service.pid, async () => {
    const started = performance.now();
    await order(items, post);
    await untilCompleted(log, from, names.length);
    return (performance.now() - started) / 1_000;
  });
  await posting.close();
  const postgresAfter = postgres.cpuSeconds();
  return {
    ...usage,
    postgresSeconds:
      postgresBefore === null || postgresAfter === null ? null : postgresAfter - postgresBefore,
  };
}
