import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { debianPackages } from '../../test/support/programs/debian.ts';
import type { Bench } from './bench.ts';
import { measureCommand, type Usage } from './usage.ts';

export interface Rclone {
  program: string;
  env: NodeJS.ProcessEnv;
}

/** A server in rclone's configuration. */
export interface Remote {
  name: string;
  protocol: string;
  /** Its section of the configuration. */
  remote: Record<string, string>;
}

/** Returns Debian's rclone. Throws if it is not available. */
export async function findRclone(): Promise<Rclone> {
  const packages = await debianPackages(['rclone'], ['/usr/bin/rclone']);
  if (!packages.available) throw new Error(packages.reason);
  const env = Object.fromEntries(
    Object.entries(packages.env).filter(([name]) => !/^(RCLONE|AWS|AZURE)_/.test(name)),
  );
  return { program: packages.path('/usr/bin/rclone'), env };
}

/** Returns a password in the form of rclone's configuration. */
export async function obscure({ program, env }: Rclone, password: string): Promise<string> {
  return (await promisify(execFile)(program, ['obscure', password], { env })).stdout.trim();
}

/** Writes a configuration with these servers. Returns the path of the file. */
export async function writeConfig({ folder }: Bench, remotes: readonly Remote[]): Promise<string> {
  const config = join(
    folder,
    `rclone-${remotes.map(({ name, protocol }) => `${protocol}-${name}`).join('-')}.conf`,
  );
  const section = ({ name, remote }: Remote) => [
    `[${name}]`,
    ...Object.entries(remote).map(([key, value]) => `${key} = ${value}`),
  ];
  await writeFile(config, `${remotes.flatMap(section).join('\n')}\n`, { mode: 0o600 });
  return config;
}

/** Runs rclone and measures it. Throws its output if it fails. */
export function runRclone({ program, env }: Rclone, args: readonly string[]): Promise<Usage> {
  return measureCommand([program, ...args], env);
}
