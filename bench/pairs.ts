import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { debianPackages } from '../test/support/programs/debian.ts';
import { type Bench, runPart } from './support/bench.ts';
import { runRclone } from './support/rclone.ts';
import {
  type Contest,
  copySideBySide,
  type Peer,
  rcloneCopy,
  withPostgres,
} from './support/side-by-side.ts';
import { measureCommand, plus } from './support/usage.ts';

const CELLS = ['one', 'small'] as const;

// rclone 1.60 often never finishes a download over FTPS. There, two tools copy by way of a folder.
const PAIRS: Record<string, Omit<Contest, 'cells'>> = {
  'sftp-s3': { source: 'sftp', destination: 's3', peers: { rclone: rcloneCopy } },
  's3-sftp': { source: 's3', destination: 'sftp', peers: { rclone: rcloneCopy } },
  'sftp-azure': { source: 'sftp', destination: 'azure', peers: { rclone: rcloneCopy } },
  'ftps-s3': {
    source: 'ftps',
    destination: 's3',
    peers: { 'lftp, rclone': lftpThen(rcloneUpload) },
  },
  's3-s3': { source: 's3', destination: 's3', peers: { rclone: rcloneCopy } },
  's3-azure': { source: 's3', destination: 'azure', peers: { rclone: rcloneCopy } },
  'ftps-sftp': {
    source: 'ftps',
    destination: 'sftp',
    peers: { 'lftp, sftp': lftpThen(sftpUpload) },
  },
};

/** Compares copies between servers of different protocols with those of the usual tools. */
export async function run(bench: Bench): Promise<void> {
  const { only } = bench.options;
  const routes = Object.keys(PAIRS);
  const unknown = only.filter((name) => ![...routes, ...CELLS].includes(name));
  if (unknown.length > 0)
    throw new TypeError(
      `--only has ${unknown.join(', ')}, but must be of ${[...routes, ...CELLS].join(', ')}`,
    );
  const chosen = <Name extends string>(names: readonly Name[]) => {
    const named = names.filter((name) => only.includes(name));
    return named.length > 0 ? named : names;
  };
  for (const route of chosen(routes)) {
    const contest = { ...(PAIRS[route] as Omit<Contest, 'cells'>), cells: chosen(CELLS) };
    // Each route prints its own table, because all of them together take long.
    await runPart(bench, (part) =>
      withPostgres(part, route, (postgres) => copySideBySide(part, postgres, contest)),
    );
  }
}

type Errand = Parameters<Peer>[0];

/** Returns a peer that downloads with lftp to a folder on disk, and uploads from there. */
function lftpThen(upload: (errand: Errand, folder: string) => ReturnType<Peer>): Peer {
  return async (errand) => {
    const folder = join(errand.bench.folder, 'between');
    await rm(folder, { recursive: true, force: true });
    return plus(await lftpDownload(errand, folder), await upload(errand, folder));
  };
}

async function lftpDownload({ source, from }: Errand, folder: string): ReturnType<Peer> {
  const lftp = await debianPackages(['lftp'], ['/usr/bin/lftp']);
  if (!lftp.available) throw new Error(lftp.reason);
  const { host, port, username, password } = source.endpoint as Record<string, string>;
  const secure =
    'set ftp:ssl-force true; set ftp:ssl-protect-data true; set ssl:verify-certificate false';
  const commands = `${secure}; mirror --parallel=4 ${source.folder}/${from} ${folder}`;
  return measureCommand(
    [
      lftp.path('/usr/bin/lftp'),
      '-u',
      `${username},${password}`,
      '-e',
      `${commands}; exit`,
      `ftp://${host}:${port}`,
    ],
    lftp.env,
  );
}

function rcloneUpload(
  { rclone, config, destination, to }: Errand,
  folder: string,
): ReturnType<Peer> {
  return runRclone(rclone, ['--config', config, 'copy', folder, `${destination.root}/${to}`]);
}

async function sftpUpload({ bench, destination, to }: Errand, folder: string): ReturnType<Peer> {
  const openssh = await debianPackages(['openssh-client'], ['/usr/bin/sftp']);
  if (!openssh.available) throw new Error(openssh.reason);
  const { key_file, port, user, host } = destination.remote as Record<string, string>;
  const batch = join(bench.folder, 'batch');
  await writeFile(batch, `put -r ${folder}/. ${destination.folder}/${to}\n`);
  const trust = ['-o', 'StrictHostKeyChecking=no', '-o', 'UserKnownHostsFile=/dev/null'];
  const command = [
    openssh.path('/usr/bin/sftp'),
    '-q',
    '-b',
    batch,
    '-i',
    key_file,
    '-P',
    port,
    ...trust,
    `${user}@${host}`,
  ];
  return measureCommand(command as string[], openssh.env);
}
