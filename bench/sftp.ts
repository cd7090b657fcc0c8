import { statSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Pool } from 'undici';
import { type DebianPrograms, debianPackages } from '../test/support/debian.ts';
import { alternate } from './support/alternate.ts';
import type { Bench } from './support/bench.ts';
import { checkSame, makeFiles } from './support/files.ts';
import { hashesInHardware } from './support/machine.ts';
import { type BenchPostgres, startPostgres } from './support/postgres.ts';
import { printProfile, printStatements } from './support/profile.ts';
import { proxyCeiling } from './support/proxy.ts';
import { headOf, type RunningService, startService, untilCompleted } from './support/service.ts';
import { type SftpSide, startSftpPair } from './support/sftp-pair.ts';
import { median } from './support/statistics.ts';
import { printTable, ratio } from './support/table.ts';
import { measureCommand, measureProcess, type Usage } from './support/usage.ts';

const MIB = 1024 * 1024;
const CELLS: Record<string, { files: number; bytes: number }> = {
  one: { files: 1, bytes: 1024 * MIB },
  eight: { files: 8, bytes: 256 * MIB },
  small: { files: 1_000, bytes: 10 * 1024 },
};
const POSTING_CONNECTIONS = 8;

interface Setting {
  bench: Bench;
  rclone: DebianPrograms;
  postgres: BenchPostgres;
  service: RunningService;
  source: SftpSide;
  destination: SftpSide;
  /** rclone's configuration file. */
  config: string;
}

/** One figure more than a process has: what the log and the other tables cost in Postgres. */
interface Measured extends Usage {
  postgresSeconds: number | null;
}

/** SFTP to SFTP between two OpenSSH servers, beside rclone. */
export async function run(bench: Bench): Promise<void> {
  const rclone = await debianPackages(['rclone'], ['/usr/bin/rclone']);
  if (!rclone.available) throw new Error(rclone.reason);
  const postgres = await startPostgres(bench);
  const rows: (string | number | null)[][] = [];
  for (const delay of bench.options.delays) {
    if (delay > 0) console.log(`A proxy with ${delay} ms lets ${Math.round(await proxyCeiling(bench, delay))} MB/s through.`);
    const { source, destination } = await startSftpPair(bench, delay);
    const databaseUrl = await postgres.createDatabase(`sftp_${delay}`);
    const service = await startService(bench, { databaseUrl, endpoints: [source.endpoint, destination.endpoint] });
    const config = await writeConfig(bench, [source, destination]);
    const setting = { bench, rclone, postgres, service, source, destination, config };
    for (const name of Object.keys(CELLS)) {
      if (bench.options.only.length === 0 || bench.options.only.includes(name)) rows.push(...(await measureCell(setting, name, delay)));
    }
    await service.stop();
    if (bench.options.profile) printProfile(service.pid);
  }
  printTable(
    `SFTP to SFTP: medians of ${bench.options.runs}, ${bench.options.shell ? 'accounts with a shell' : 'accounts for files alone'}`,
    ['files', 'round trip', 'who', 'seconds', 'MB/s', 'files/s', 'speed', 'CPU s', 'CPU s/GiB', 'peak MiB', 'Postgres CPU s'],
    rows,
  );
}

async function writeConfig({ folder }: Bench, sides: SftpSide[]): Promise<string> {
  const remotes = sides.map(async ({ name, port, server }) => {
    const key = join(folder, `${name}-${port}.key`);
    await writeFile(key, server.privateKey, { mode: 0o600 });
    return `[${name}]\ntype = sftp\nhost = ${server.host}\nport = ${port}\nuser = ${server.username}\nkey_file = ${key}\n`;
  });
  const config = join(folder, `rclone-${sides.map(({ port }) => port).join('-')}.conf`);
  await writeFile(config, (await Promise.all(remotes)).join('\n'), { mode: 0o600 });
  return config;
}

async function measureCell(setting: Setting, name: string, delay: number): Promise<(string | number | null)[][]> {
  const { bench, source, destination, postgres } = setting;
  const { runs, scale, profile } = bench.options;
  const cell = CELLS[name]!;
  const files = cell.files > 8 ? Math.ceil(cell.files * scale) : cell.files;
  const bytes = cell.files > 8 ? cell.bytes : Math.ceil((cell.bytes * scale) / MIB) * MIB;
  await mkdir(join(source.folder, 'out', name));
  const names = await makeFiles(join(source.folder, 'out', name), files, bytes);
  const target = (who: string) => join(destination.folder, who);
  const cleared = async <T>(who: string, work: () => Promise<T>) => {
    await rm(target(who), { recursive: true, force: true });
    await mkdir(target(who));
    return work();
  };
  const copy = [
    '--config',
    setting.config,
    'copy',
    `${source.name}:${source.folder}/out/${name}`,
    `${destination.name}:${target('rclone')}`,
  ];
  console.log(`\nrclone ${copy.join(' ')}`);

  const logged = postgres.log === null ? 0 : statSync(postgres.log).size;
  const rclone = () => cleared('rclone', () => runRclone(setting, copy));
  const contestants: Record<string, () => Promise<Measured>> = {
    waybill: () => cleared('waybill', () => runWaybill(setting, name, names)),
    rclone,
  };
  if (!hashesInHardware()) {
    const hash = ['--config', setting.config, 'hashsum', 'sha256', '--download', `${destination.name}:${target('rclone')}`];
    console.log(`rclone ${hash.join(' ')}`);
    contestants['rclone, hashed'] = async () => plus(await rclone(), await runRclone(setting, hash));
  }
  const results = await alternate(runs, contestants);
  for (const who of ['waybill', 'rclone']) await checkSame(join(source.folder, 'out', name), target(who));
  for (const folder of [join(source.folder, 'out', name), target('waybill'), target('rclone')]) await rm(folder, { recursive: true });
  if (profile) printStatements(postgres, logged, files * (runs + 1));

  const gibibytes = (files * bytes) / 2 ** 30;
  const ours = median(results.waybill!.map(({ seconds }) => seconds));
  return Object.entries(results).map(([who, measured]) => {
    const seconds = median(measured.map((usage) => usage.seconds));
    const cpu = medianOf(measured, 'cpuSeconds');
    const peak = medianOf(measured, 'peakBytes');
    const size = bytes >= MIB ? `${bytes / MIB} MiB` : `${bytes / 1024} KiB`;
    return [
      `${files} x ${size}`,
      `${delay} ms`,
      who,
      seconds,
      (files * bytes) / 1e6 / seconds,
      files / seconds,
      who === 'waybill' ? '' : `${ratio(seconds, ours)} ours`,
      cpu,
      cpu === null || files > 8 ? null : cpu / gibibytes,
      peak && peak / MIB,
      medianOf(measured, 'postgresSeconds'),
    ];
  });
}

/** From the first POST until the log holds the last completion. */
async function runWaybill({ service, source, destination, postgres }: Setting, cell: string, names: string[]): Promise<Measured> {
  const { url, headers, sql } = service;
  const from = await headOf(sql);
  const postgresBefore = postgres.cpuSeconds();
  const posting = new Pool(url, { connections: POSTING_CONNECTIONS });
  const usage = await measureProcess(service.pid, async () => {
    const started = performance.now();
    await Promise.all(
      names.map(async (name) => {
        const request = {
          source_uri: `sftp://${source.name}/out/${cell}/${name}`,
          destination_uri: `sftp://${destination.name}/waybill/${name}`,
        };
        const { statusCode, body } = await posting.request({
          method: 'POST',
          path: '/v1/transfers',
          headers,
          body: JSON.stringify(request),
        });
        const answer = await body.text();
        if (statusCode !== 201) throw new Error(`POST answers ${statusCode}: ${answer}`);
      }),
    );
    await untilCompleted(sql, from, names.length);
    return (performance.now() - started) / 1_000;
  });
  await posting.close();
  const postgresAfter = postgres.cpuSeconds();
  return { ...usage, postgresSeconds: postgresBefore === null || postgresAfter === null ? null : postgresAfter - postgresBefore };
}

async function runRclone({ rclone }: Setting, args: string[]): Promise<Measured> {
  const env = Object.fromEntries(Object.entries(rclone.env).filter(([name]) => !/^(RCLONE|AWS)_/.test(name)));
  return { ...(await measureCommand([rclone.path('/usr/bin/rclone'), ...args], env)), postgresSeconds: null };
}

function plus(a: Measured, b: Measured): Measured {
  const peak = Math.max(a.peakBytes ?? 0, b.peakBytes ?? 0);
  const cpu = a.cpuSeconds === null || b.cpuSeconds === null ? null : a.cpuSeconds + b.cpuSeconds;
  return { seconds: a.seconds + b.seconds, cpuSeconds: cpu, peakBytes: peak || null, postgresSeconds: null };
}

function medianOf(measured: Measured[], figure: 'cpuSeconds' | 'peakBytes' | 'postgresSeconds'): number | null {
  const values = measured.map((usage) => usage[figure]).filter((value) => value !== null);
  return values.length > 0 ? median(values) : null;
}
