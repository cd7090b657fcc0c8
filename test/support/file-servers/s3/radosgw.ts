import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { globSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CreateBucketCommand, PutBucketPolicyCommand, S3Client } from '@aws-sdk/client-s3';
import { freePort } from '../../network/free-port.ts';
import { type DebianPrograms, debianPackages } from '../../programs/debian.ts';
import { sharedServer } from '../../run/shared-servers.ts';
import { cephTools, createCluster, createOsd } from './ceph-cluster.ts';

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

/** Returns null if a server has ended before the gateway answered. */
async function startIn(home: string, programs: DebianPrograms): Promise<Radosgw | null> {
  const port = await freePort();
  const tools = cephTools(home, programs);
  await createCluster(tools, programs, port);
  const servers = [tools.daemon('ceph-mon', '-i', 'a')];
  const killAll = () => Promise.all(servers.map((server) => server.kill()));
  const stop = async () => {
    await killAll();
    rmSync(home, { recursive: true, force: true });
  };
  const startGateway = () => {
    const started = tools.daemon('radosgw', '-n', 'client.rgw');
    servers.push(started);
    return started;
  };
  try {
    await createOsd(tools);
    servers.push(tools.daemon('ceph-osd', '-i', '0'));
    let gateway = startGateway();
    const facts = {
      endpointUrl: `http://127.0.0.1:${port}`,
      accessKeyId: 'waybill',
      secretAccessKey: randomBytes(20).toString('hex'),
      home,
    };
    const answers = () =>
      fetch(facts.endpointUrl).then(
        (response) => response.ok,
        () => false,
      );
    const [ready] = await Promise.all([gateway.ready(answers), createUser(facts, programs)]);
    if (!ready || servers.some((server) => server.ended)) {
      await killAll();
      return null;
    }
    const users = usersOf(facts, programs);
    return {
      ...users,
      facts,
      gatewayDown: () => gateway.kill(),
      async restartGateway() {
        await gateway.kill();
        gateway = startGateway();
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

function createUser(facts: CephFacts, programs: DebianPrograms) {
  const { home, accessKeyId, secretAccessKey } = facts;
  const keys = [`--access-key=${accessKeyId}`, `--secret-key=${secretAccessKey}`];
  const user = ['--uid=waybill', '--display-name=waybill'];
  return admin(home, programs, 'user', 'create', ...user, ...keys);
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
