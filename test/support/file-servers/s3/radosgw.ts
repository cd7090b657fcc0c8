import { execFile } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import {
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CreateBucketCommand, PutBucketPolicyCommand, S3Client } from '@aws-sdk/client-s3';
import { freePort } from '../../network/free-port.ts';
import { type DebianPrograms, debianPackages } from '../../programs/debian.ts';
import { startProcess } from '../../programs/server-process.ts';
import { sharedServer } from '../../run/shared-servers.ts';

/** The gateway as its users see it. */
export interface Ceph {
  endpointUrl: string;
  accessKeyId: string;
  secretAccessKey: string;
  region: string;
  createBucket(name: string): Promise<void>;
  /** Rejects an action on the objects of a bucket from now on, such as `s3:PutObject`. */
  deny(bucket: string, action: string): Promise<void>;
  /** Limits the bytes of a bucket; committed bytes count. */
  setQuota(bucket: string, bytes: number): Promise<void>;
  /** Ends the use of it. */
  stop(): Promise<void>;
}

export interface Radosgw extends Ceph {
  /** How another process uses it. */
  facts: CephFacts;
  /** Ends the gateway like a crash. The cluster behind it stays, with all its data. */
  gatewayDown(): Promise<void>;
  /** Starts the gateway again on the same port. */
  restartGateway(): Promise<void>;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

type CephFacts = Record<'endpointUrl' | 'accessKeyId' | 'secretAccessKey' | 'home', string>;

const REGION = 'us-east-1';

const ceph = () =>
  debianPackages(
    ['ceph-mon', 'ceph-osd', 'radosgw'],
    ['/usr/bin/ceph-mon', '/usr/bin/ceph-osd', '/usr/bin/radosgw', '/usr/bin/osdmaptool'],
  );

/** Null if Ceph can run here, else the reason. Tests that need it are skipped with the reason. */
export async function whyNoRadosgw(): Promise<string | null> {
  const programs = await ceph();
  return programs.available ? null : programs.reason;
}

/** Returns the Ceph that the test files of a run share. Each chooses bucket names of its own. */
export async function shareRadosgw(): Promise<Ceph> {
  const programs = await ceph();
  if (!programs.available) throw new Error(programs.reason);
  return usersOf((await sharedServer('ceph')) as CephFacts, programs);
}

/** Starts the Ceph that test files share. */
export async function startRadosgwForMany() {
  const { facts, stop } = await startRadosgw();
  return { facts: () => facts, stop };
}

/**
 * Starts a whole Ceph cluster on loopback: a monitor, an OSD that keeps objects in memory, and the
 * S3 gateway. A test file shares it, with one bucket for each test. Throws if `whyNoRadosgw`
 * returns a reason.
 */
export async function startRadosgw(): Promise<Radosgw> {
  const programs = await ceph();
  if (!programs.available) throw new Error(programs.reason);
  for (let attempt = 1; ; attempt++) {
    const home = realpathSync(mkdtempSync(join(tmpdir(), 'waybill-radosgw-')));
    const log = () =>
      globSync('*.log', { cwd: home }).map(
        (name) => `${name}:\n${readFileSync(join(home, name), 'utf8').slice(-2_000)}`,
      );
    const started = await startIn(home, programs);
    if (started) return started;
    const logged = log().join('\n');
    rmSync(home, { recursive: true, force: true });
    // Most likely another program took a port meanwhile.
    if (attempt === 3) throw new Error(`Ceph does not start:\n${logged}`);
  }
}

async function startIn(home: string, programs: DebianPrograms): Promise<Radosgw | null> {
  const monitor = `[v2:127.0.0.1:${await freePort()}]`;
  const port = await freePort();
  const fsid = randomUUID();
  const config = join(home, 'ceph.conf');
  const keyring = join(home, 'keyring');
  writeFileSync(config, configuration(home, fsid, monitor, port, programs));
  for (const folder of ['mon', 'osd']) mkdirSync(join(home, folder));

  const run = (program: string, ...args: string[]) =>
    promisify(execFile)(programs.path(`/usr/bin/${program}`), args, {
      cwd: home,
      env: programs.env,
    });
  const daemon = (program: string, ...args: string[]) =>
    startProcess([programs.path(`/usr/bin/${program}`), '-c', config, '-f', ...args], {
      env: programs.env,
    });

  await run(
    'ceph-authtool',
    keyring,
    '--create-keyring',
    '--gen-key',
    '-n',
    'mon.',
    '--cap',
    'mon',
    'allow *',
  );
  await run(
    'ceph-authtool',
    keyring,
    '--gen-key',
    '-n',
    'osd.0',
    '--cap',
    'mon',
    'allow profile osd',
    '--cap',
    'osd',
    'allow *',
  );
  await run(
    'ceph-authtool',
    keyring,
    '--gen-key',
    '-n',
    'client.rgw',
    '--cap',
    'mon',
    'allow rw',
    '--cap',
    'osd',
    'allow rwx',
  );
  await run('monmaptool', '--create', '--fsid', fsid, '--addv', 'a', monitor, 'monmap');
  // The map lists the one OSD from the start, which saves many commands to the monitor.
  await run('osdmaptool', 'osdmap', '--createsimple', '1');
  await run(
    'ceph-mon',
    '-c',
    config,
    '--mkfs',
    '-i',
    'a',
    '--monmap',
    'monmap',
    '--osdmap',
    'osdmap',
    '--keyring',
    keyring,
  );

  const mon = daemon('ceph-mon', '-i', 'a');
  const servers = [mon];
  const stop = async () => {
    await Promise.all(servers.map((server) => server.kill()));
    rmSync(home, { recursive: true, force: true });
  };
  try {
    await run('ceph-osd', '-c', config, '-i', '0', '--mkfs', '--osd-uuid', randomUUID());
    servers.push(daemon('ceph-osd', '-i', '0'));
    let gateway = daemon('radosgw', '-n', 'client.rgw');
    servers.push(gateway);
    const credentials = {
      accessKeyId: 'waybill',
      secretAccessKey: randomBytes(20).toString('hex'),
    };
    const keys = [
      `--access-key=${credentials.accessKeyId}`,
      `--secret-key=${credentials.secretAccessKey}`,
    ];
    const user = ['user', 'create', '--uid=waybill', '--display-name=waybill', ...keys];
    const endpointUrl = `http://127.0.0.1:${port}`;
    const answers = () =>
      fetch(endpointUrl).then(
        (response) => response.ok,
        () => false,
      );
    const [ready] = await Promise.all([gateway.ready(answers), admin(home, programs, ...user)]);
    if (!ready || servers.some((server) => server.ended)) {
      await Promise.all(servers.map((server) => server.kill()));
      return null;
    }
    const facts = { endpointUrl, ...credentials, home };
    const users = usersOf(facts, programs);
    return {
      ...users,
      facts,
      gatewayDown: () => gateway.kill(),
      async restartGateway() {
        await gateway.kill();
        gateway = daemon('radosgw', '-n', 'client.rgw');
        servers.push(gateway);
        if (!(await gateway.ready(answers)))
          throw new Error(`port ${port} was taken while the gateway was down`);
      },
      async stop() {
        await users.stop();
        await stop();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function admin(home: string, programs: DebianPrograms, ...args: string[]) {
  const config = ['-c', join(home, 'ceph.conf'), '-n', 'client.rgw'];
  return promisify(execFile)(programs.path('/usr/bin/radosgw-admin'), [...config, ...args], {
    cwd: home,
    env: programs.env,
  });
}

function usersOf(facts: CephFacts, programs: DebianPrograms): Ceph {
  const { endpointUrl, home, ...credentials } = facts;
  const region = REGION;
  const s3 = new S3Client({ endpoint: endpointUrl, region, credentials, forcePathStyle: true });
  return {
    endpointUrl,
    ...credentials,
    region,
    async createBucket(name) {
      await s3.send(new CreateBucketCommand({ Bucket: name }));
    },
    async deny(bucket, action) {
      const statement = {
        Effect: 'Deny',
        Principal: '*',
        Action: action,
        Resource: `arn:aws:s3:::${bucket}/*`,
      };
      const policy = { Version: '2012-10-17', Statement: [statement] };
      await s3.send(new PutBucketPolicyCommand({ Bucket: bucket, Policy: JSON.stringify(policy) }));
    },
    async setQuota(bucket, bytes) {
      const quota = ['--quota-scope=bucket', `--bucket=${bucket}`];
      await admin(home, programs, 'quota', 'set', ...quota, `--max-size=${bytes}B`);
      await admin(home, programs, 'quota', 'enable', ...quota);
    },
    async stop() {
      s3.destroy();
    },
  };
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
