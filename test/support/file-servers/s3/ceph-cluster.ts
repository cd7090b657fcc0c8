/*
 * The parts of a Ceph cluster that are there before its servers start: its configuration, the keys,
 * the maps, and the data of the monitor and of the OSD.
 */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { globSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../network/free-port.ts';
import type { DebianPrograms } from '../../programs/debian.ts';
import { type ServerProcess, startProcess } from '../../programs/server-process.ts';

/** Runs the programs of Ceph for the cluster of a folder. */
export interface CephTools {
  home: string;
  config: string;
  run(program: string, ...args: string[]): Promise<unknown>;
  daemon(program: string, ...args: string[]): ServerProcess;
}

export function cephTools(home: string, programs: DebianPrograms): CephTools {
  const { env } = programs;
  const config = join(home, 'ceph.conf');
  const pathOf = (program: string) => programs.path(`/usr/bin/${program}`);
  return {
    home,
    config,
    run: (program, ...args) => promisify(execFile)(pathOf(program), args, { cwd: home, env }),
    daemon: (program, ...args) =>
      startProcess([pathOf(program), '-c', config, '-f', ...args], { env }),
  };
}

/** What each server may do. The first command creates the file of the keys. */
const KEYS = [
  { name: 'mon.', create: ['--create-keyring'], rights: { mon: 'allow *' } },
  { name: 'osd.0', create: [], rights: { mon: 'allow profile osd', osd: 'allow *' } },
  { name: 'client.rgw', create: [], rights: { mon: 'allow rw', osd: 'allow rwx' } },
];

/** Creates all that the monitor needs to start. `port` is that of the gateway. */
export async function createCluster(
  { home, config, run }: CephTools,
  programs: DebianPrograms,
  port: number,
): Promise<void> {
  const monitor = `[v2:127.0.0.1:${await freePort()}]`;
  const fsid = randomUUID();
  const keyring = join(home, 'keyring');
  writeFileSync(config, configuration(home, fsid, monitor, port, programs));
  for (const folder of ['mon', 'osd']) mkdirSync(join(home, folder));
  for (const { name, create, rights } of KEYS) {
    const caps = Object.entries(rights).flatMap(([server, right]) => ['--cap', server, right]);
    await run('ceph-authtool', keyring, ...create, '--gen-key', '-n', name, ...caps);
  }
  await run('monmaptool', '--create', '--fsid', fsid, '--addv', 'a', monitor, 'monmap');
  // The map lists the one OSD from the start, which saves many commands to the monitor.
  await run('osdmaptool', 'osdmap', '--createsimple', '1');
  const maps = ['--monmap', 'monmap', '--osdmap', 'osdmap'];
  await run('ceph-mon', '-c', config, '--mkfs', '-i', 'a', ...maps, '--keyring', keyring);
}

/** Creates the data of the OSD. The monitor has to run. */
export async function createOsd({ config, run }: CephTools): Promise<void> {
  await run('ceph-osd', '-c', config, '-i', '0', '--mkfs', '--osd-uuid', randomUUID());
}

function configuration(
  home: string,
  fsid: string,
  monitor: string,
  port: number,
  { root }: DebianPrograms,
): string {
  const [libraries] = globSync('usr/lib/*/rados-classes', { cwd: root }).map((folder) =>
    join(root, folder, '..'),
  );
  return `
[global]
fsid = ${fsid}
mon_host = ${monitor}
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
auth_allow_insecure_global_id_reclaim = false
keyring = ${join(home, 'keyring')}
run_dir = ${home}
log_file = ${home}/$name.log
admin_socket =
pid_file =
plugin_dir = ${libraries}/ceph
erasure_code_dir = ${libraries}/ceph/erasure-code
osd_pool_default_size = 1
osd_pool_default_min_size = 1
mon_allow_pool_size_one = true
osd_pool_default_pg_num = 8
osd_pool_default_pgp_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_max_pg_per_osd = 2000
mon_data_avail_crit = 1
mon_data_avail_warn = 1
paxos_propose_interval = 0.05
paxos_min_wait = 0.01
mon_tick_interval = 1
[mon]
mon_data = ${join(home, 'mon')}
[osd]
osd_data = ${join(home, 'osd')}
osd_crush_update_on_start = false
osd_objectstore = memstore
memstore_device_bytes = 8589934592
memstore_page_set = false
osd_max_write_size = 256
osd_class_dir = ${libraries}/rados-classes
osd_class_load_list = *
osd_class_default_list = *
[client]
rgw_frontends = beast endpoint=127.0.0.1:${port} tcp_nodelay=1
rgw_thread_pool_size = 64
rgw_gc_obj_min_wait = 10
rgw_gc_processor_period = 10
rgw_gc_processor_max_time = 10
# Does not cache the sums that quotas are compared with.
rgw_bucket_quota_ttl = 0
`;
}
