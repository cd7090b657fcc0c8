import type { Bench } from './support/bench.ts';
import { hashesInHardware } from './support/machine.ts';
import { proxyCeiling } from './support/proxy.ts';
import { runRclone } from './support/rclone.ts';
import {
  CELLS,
  type CellName,
  copySideBySide,
  type Peer,
  rcloneCopy,
  withPostgres,
} from './support/side-by-side.ts';
import { plus } from './support/usage.ts';

/** Compares copies between two OpenSSH servers with those of rclone. */
export async function run(bench: Bench): Promise<void> {
  const { delays, only, shell } = bench.options;
  for (const delay of delays.filter((delay) => delay > 0)) {
    console.log(
      `A proxy with ${delay} ms passes ${Math.round(await proxyCeiling(bench, delay))} MB/s.`,
    );
  }
  const cells = (Object.keys(CELLS) as CellName[]).filter((name) =>
    only.length === 0 ? name !== 'many' : only.includes(name),
  );
  const peers = {
    rclone: rcloneCopy,
    ...(hashesInHardware() ? {} : { 'rclone, hashed': copyAndHash }),
  };
  await withPostgres(
    bench,
    `SFTP to SFTP, ${shell ? 'accounts with a shell' : 'accounts with SFTP only'}`,
    (postgres) =>
      copySideBySide(bench, postgres, { source: 'sftp', destination: 'sftp', cells, peers }),
  );
}

const copyAndHash: Peer = async (errand) => {
  const { rclone, config, destination, to } = errand;
  const copied = await rcloneCopy(errand);
  return plus(
    copied,
    await runRclone(rclone, [
      '--config',
      config,
      'hashsum',
      'sha256',
      '--download',
      `${destination.root}/${to}`,
    ]),
  );
};
