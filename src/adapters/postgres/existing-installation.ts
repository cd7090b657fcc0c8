import { resolve } from 'node:path';
import { DomainError } from '../../domain/errors.ts';
import type { Sql } from './connect.ts';
import { hasCluster } from './embedded/cluster.ts';
import { isMigrated } from './migrate.ts';

/** Where the settings look for an installation. Without a URL, the embedded Postgres has it. */
interface Place {
  databaseUrl: string | null;
  dataDir: string;
}

/** The settings name a place without an installation. */
export class NoInstallation extends DomainError {}

/** Returns false if the embedded Postgres of these settings was never started. */
export function mayHaveInstallation({ databaseUrl, dataDir }: Place): boolean {
  return databaseUrl !== null || hasCluster(dataDir);
}

/** Throws `not_found` if the embedded Postgres of these settings was never started. */
export function requireCluster(place: Place): void {
  if (!mayHaveInstallation(place)) throw noInstallation(place);
}

/** Throws `not_found` for a database without tables of Waybill. */
export async function requireTables(place: Place, sql: Sql): Promise<void> {
  if (!(await isMigrated(sql))) throw noInstallation(place);
}

function noInstallation({ databaseUrl, dataDir }: Place): NoInstallation {
  const [where, advice] =
    databaseUrl === null
      ? [
          resolve(dataDir),
          'Run the command in the folder of the service, or set WAYBILL_DATA_DIR or DATABASE_URL ' +
            'as the service does.',
        ]
      : ['the database of DATABASE_URL', 'Check that setting.'];
  return new NoInstallation(
    'not_found',
    `There is no installation of Waybill in ${where}, and this command creates none. ${advice} ` +
      'To create one there, run `waybill serve`',
  );
}
