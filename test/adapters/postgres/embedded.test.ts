import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { withFileLock } from '../../../src/adapters/file-lock.ts';
import { connect } from '../../../src/adapters/postgres/connect.ts';
import {
  copyPostgres,
  installedPostgres,
} from '../../../src/adapters/postgres/embedded/binaries.ts';
import { openCluster } from '../../../src/adapters/postgres/embedded/cluster.ts';
import {
  EmbeddedPostgresError,
  startEmbeddedPostgres,
} from '../../../src/adapters/postgres/embedded/embedded.ts';
import { runPostmaster } from '../../../src/adapters/postgres/embedded/postmaster.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { canHaveMountNamespace } from '../../support/programs/mount-namespace.ts';
import { killAll } from '../../support/programs/process-tree.ts';
import { LONG } from '../../support/run/long.ts';
import { until } from '../../support/service/transfers.ts';

const USER = resolve(import.meta.dirname, '../../support/postgres/embedded-user.ts');
const SILENT = pino({ level: 'silent' });
const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;
const nobodyReachesProject =
  isRoot &&
  succeeds('setpriv', [`--reuid=${NOBODY}`, '--clear-groups', process.execPath, '--check', USER]);

/** Puts a folder on a disk of its own without room, and runs a program there. */
const ON_A_FULL_DISK = `
  cp -a "$1" "$1.copy"
  mount -t tmpfs -o size=200m,mode=711 tmpfs "$1"
  cp -a "$1.copy/." "$1"
  head -c 200m /dev/zero > "$1/filler" 2> /dev/null || true
  shift
  exec "$@"
`;

const canPassCapability =
  isRoot &&
  succeeds('setpriv', [
    '--securebits=+no_setuid_fixup',
    '--inh-caps=+dac_override',
    '--ambient-caps=+dac_override',
    'true',
  ]);

/** Runs a program as a container does: without the processes, network and memory of the others. */
const CONTAINER = ['unshare', '--pid', '--net', '--ipc', '--fork'];
const MOUNT_PROC = [
  '--mount-proc',
  '--kill-child',
  'sh',
  '-c',
  'ip link set lo up; exec "$@"',
  'sh',
];
const canHaveContainer = succeeds(CONTAINER[0]!, [...CONTAINER.slice(1), ...MOUNT_PROC, 'true']);

let root: string;
let dataDir: string;
let undo: (() => Promise<unknown>)[];
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'waybill embedded '));
  dataDir = join(root, 'a folder', '.waybill');
  undo = [];
});
afterEach(async () => {
  for (const step of undo.reverse()) await step();
  if (postmasterPid() !== null) await killAll([postmasterPid()!]);
  removeFolder(root);
});

/** A data folder of a server that has stopped. */
let used: string | null = null;
afterAll(() => used && removeFolder(used));

/** Gives the test a folder that was used before: creating one takes seconds of CPU time. */
async function useFolder(): Promise<void> {
  if (used === null) {
    used = mkdtempSync(join(tmpdir(), 'waybill used '));
    const { release } = await startEmbeddedPostgres({ dataDir: used, logger: SILENT });
    await release();
  }
  mkdirSync(dirname(dataDir));
  execFileSync('cp', ['-a', used, dataDir]);
}

function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
}

async function start(logger = SILENT) {
  const server = await startEmbeddedPostgres({ dataDir, logger });
  undo.push(server.release);
  return server;
}

interface User {
  url?: string;
  error?: string;
  code?: string;
  child: ChildProcess;
  /** Releases the server and ends. */
  end(): Promise<void>;
}

/** Another process that uses the server. */
async function startUser({
  env = process.env,
  uid,
  within = [],
}: {
  env?: NodeJS.ProcessEnv;
  uid?: number;
  /** A program that starts it, with its arguments. */
  within?: string[];
} = {}): Promise<User> {
  const [program = '', ...args] = [...within, process.execPath, USER, dataDir];
  const child = spawn(program, args, {
    env,
    uid,
    gid: uid,
    detached: true,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const exit = once(child, 'exit');
  const end = async () => {
    child.stdin.end();
    await exit;
  };
  undo.push(end);
  const [line] = await once(createInterface(child.stdout), 'line');
  return { ...JSON.parse(line), child, end };
}

async function query(url: string, text: string) {
  const sql = connect(url, { max: 1 });
  return (await sql.unsafe(text).finally(() => sql.end())).map((row) => ({ ...row }));
}

const untilRefused = (url: string) =>
  until('the server takes no new session', () =>
    query(url, 'select 1').then(
      () => false,
      () => true,
    ),
  );

const pidFile = () => join(dataDir, 'postgres', 'data', 'postmaster.pid');
const postmasterPid = () =>
  existsSync(pidFile()) ? Number(readFileSync(pidFile(), 'utf8').split('\n')[0]) : null;

function succeeds(program: string, args: string[]): boolean {
  try {
    execFileSync(program, args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Returns an environment in which only these programs are found. */
function withPrograms(names: string[]): NodeJS.ProcessEnv {
  const folder = join(root, 'programs');
  mkdirSync(folder);
  for (const name of names)
    symlinkSync(execFileSync('which', [name], { encoding: 'utf8' }).trim(), join(folder, name));
  return { ...process.env, PATH: folder };
}

describeWithPostgres('embedded Postgres', () => {
  it('starts in an empty folder, in UTF-8 and UTC, with access for its owner alone', async () => {
    const { url } = await start();
    const [settings] = await query(
      url,
      `select current_setting('server_encoding') as encoding,
              current_setting('TimeZone') as zone, current_setting('fsync') as fsync,
              current_setting('listen_addresses') as addresses,
              current_setting('unix_socket_directories') as sockets,
              datlocprovider as provider, datlocale as locale
         from pg_database where datname = current_database()`,
    );
    expect(settings).toEqual({
      encoding: 'UTF8',
      zone: 'UTC',
      fsync: 'on',
      addresses: '127.0.0.1',
      sockets: '',
      provider: 'b',
      locale: 'C.UTF-8',
    });
    expect(statSync(dataDir).mode & 0o077).toBe(0);
    const stranger = new URL(url);
    stranger.password = 'wrong';
    await expect(query(stranger.href, 'select 1')).rejects.toThrow(
      /password authentication failed/,
    );
  });

  it('stops when it is released, and starts again with its data', LONG, async () => {
    await useFolder();
    const lines: string[] = [];
    const first = await start(pino({}, { write: (line) => void lines.push(line) }));
    await query(first.url, 'create table kept (id integer); insert into kept values (1)');
    const pid = postmasterPid()!;
    await first.release();
    expect(lines).toHaveLength(2);
    for (const line of lines) {
      expect(JSON.parse(line)).toMatchObject({ pid: process.pid, postgres_pid: pid });
    }
    // It has removed its file; the machine may take a moment to remove the process.
    await expect.poll(() => existsSync(`/proc/${pid}`)).toBe(false);
    const second = await start();
    expect(await query(second.url, 'select id from kept')).toEqual([{ id: 1 }]);
  });

  it('is one server for all processes, and stops with the last of them', async () => {
    const [one, two, here] = await Promise.all([startUser(), startUser(), start()]);
    expect(new Set([one.url, two.url, here.url]).size).toBe(1);
    const pid = postmasterPid();
    await one.end();
    await here.release();
    expect(postmasterPid()).toBe(pid);
    expect(await query(two.url!, 'select 1 as one')).toEqual([{ one: 1 }]);
    await two.end();
    expect(postmasterPid()).toBeNull();
  });

  it('stops with the last process also if that exits without a release', LONG, async () => {
    await useFolder();
    const [one, two] = [await startUser(), await startUser()];
    const pid = postmasterPid();
    const exit = async ({ child }: User) => {
      const exited = once(child, 'exit');
      child.kill();
      await exited;
    };
    await exit(one);
    expect(await query(two.url!, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(postmasterPid()).toBe(pid);
    await exit(two);
    await until('the server stops', async () => postmasterPid() === null);
  });

  it('is taken over from a killed process, which no longer counts as a user', async () => {
    await useFolder();
    const killed = await startUser();
    await query(killed.url!, 'create table kept (id integer); insert into kept values (1)');
    const pid = postmasterPid();
    await killAll([killed.child.pid!]);
    expect(await query(killed.url!, 'select id from kept')).toEqual([{ id: 1 }]);

    const next = await start();
    expect(postmasterPid()).toBe(pid);
    expect(await query(next.url, 'select id from kept')).toEqual([{ id: 1 }]);
    await next.release();
    expect(postmasterPid()).toBeNull();
  });

  it('recovers when the server was killed together with its user', LONG, async () => {
    await useFolder();
    const killed = await startUser();
    await query(killed.url!, 'create table kept (id integer); insert into kept values (1)');
    await killAll([killed.child.pid!, postmasterPid()!]);
    const next = await start();
    expect(await query(next.url, 'select id from kept')).toEqual([{ id: 1 }]);
  });

  it('restarts at the same address when the server is killed while in use', async () => {
    await useFolder();
    const [here, other] = [await start(), await startUser()];
    const pid = postmasterPid()!;
    await killAll([pid]);
    while (
      postmasterPid() === null ||
      postmasterPid() === pid ||
      !(await query(here.url, 'select 1').catch(() => null))
    )
      await sleep(50);
    expect(await query(other.url!, 'select 1 as one')).toEqual([{ one: 1 }]);
    await other.end();
    await here.release();
    expect(postmasterPid()).toBeNull();
  });

  it.each([
    ['was killed', 'SIGKILL'],
    ['ended', 'SIGINT'],
  ] as const)('keeps its address if another process starts it after it %s', async (_, signal) => {
    await useFolder();
    const here = await start();
    process.kill(postmasterPid()!, signal);
    await untilRefused(here.url);
    const next = await start();
    expect(next.url).toBe(here.url);
    await next.release();
    expect(await query(here.url, 'select 1 as one')).toEqual([{ one: 1 }]);
    await here.release();
  });

  /** Asks the server to stop. It waits for a session that stays open. */
  async function askToStop(url: string): Promise<void> {
    const session = connect(url, { max: 1 });
    await session`select 1`;
    undo.push(() => session.end({ timeout: 1 }));
    process.kill(postmasterPid()!, 'SIGTERM');
    await untilRefused(url);
    expect(await session`select 1 as one`).toEqual([{ one: 1 }]);
  }

  it('starts again when another process joins it while it waits for its sessions', async () => {
    await useFolder();
    const here = await start();
    await askToStop(here.url);
    const next = await start();
    expect(await query(next.url, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(next.url).toBe(here.url);
    await next.release();
    await here.release();
  });

  it('starts again although it was asked to stop and waits for its sessions', LONG, async () => {
    await useFolder();
    const here = await start();
    await askToStop(here.url);
    await until('an answer', () => query(here.url, 'select 1').catch(() => null), 60);
    await here.release();
  });

  it.skipIf(!canHaveMountNamespace())(
    'says that its file system is read-only, and runs again when that has passed',
    LONG,
    async () => {
      await useFolder();
      const lines: string[] = [];
      const { url } = await start(pino({ base: null }, { write: (line) => lines.push(line) }));
      // Files that are open keep the mount that they were opened on.
      execFileSync('mount', ['--bind', dataDir, dataDir]);
      undo.push(async () => succeeds('umount', ['-l', dataDir]));
      execFileSync('mount', ['-o', 'remount,bind,ro', dataDir]);
      await killAll([postmasterPid()!]);
      await until('the message', () => lines.some((line) => line.includes('does not start')));
      expect(lines.at(-1)).toMatch(/its file system is read-only\. .* mount it so that/);
      execFileSync('umount', ['-l', dataDir]);
      await until('an answer', () => query(url, 'select 1').catch(() => null));
    },
  );

  it(
    'stops with the last process, also a server that another one has restarted',
    LONG,
    async () => {
      await useFolder();
      const here = await start();
      const home = join(dataDir, 'postgres');
      let released: Promise<void> | undefined;
      await withFileLock(join(home, 'start.lock'), async () => {
        // It watches the server no longer, and waits for the lock.
        released = here.release();
        await killAll([postmasterPid()!]);
        // As another process does, which is killed afterwards.
        await runPostmaster(await openCluster(home, {}), () => true);
      });
      await released;
      expect(postmasterPid()).toBeNull();
    },
  );

  it('leaves another process alone that has the process id of a dead server', LONG, async () => {
    await useFolder();
    const stranger = spawn('sleep', ['600']);
    undo.push(async () => stranger.kill());
    await once(stranger, 'spawn');
    writeFileSync(
      pidFile(),
      `${stranger.pid}\n${join(dataDir, 'postgres', 'data')}\n1\n1\n\n127.0.0.1\n\nready   \n`,
    );
    const { url } = await start();
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(stranger.exitCode ?? stranger.signalCode).toBeNull();
  });

  it.each([
    ['empty', ''],
    ['full of zeros', '\0'.repeat(80)],
  ])('starts after a crash of the machine that left its postmaster.pid %s', async (_, left) => {
    await useFolder();
    writeFileSync(pidFile(), left);
    utimesSync(pidFile(), 0, 0);
    const { url } = await start();
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }]);
  });

  it.skipIf(!canHaveContainer)(
    'does not touch the data while a server in another container has them (needs namespaces)',
    async () => {
      await useFolder();
      const contained = await startUser({ within: [...CONTAINER, ...MOUNT_PROC] });
      expect(contained.error).toBeUndefined();
      const file = readFileSync(pidFile(), 'utf8');
      await expect(start()).rejects.toThrow(/runs where this process cannot see it/);
      expect(readFileSync(pidFile(), 'utf8')).toBe(file);
      await contained.end();
      const { url } = await start();
      expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }]);
    },
  );

  it.skipIf(!canHaveContainer)(
    'keeps the data from other containers after its users were killed (needs namespaces)',
    LONG,
    async () => {
      await useFolder();
      const killed = await startUser();
      await killAll([killed.child.pid!]);
      const contained = await startUser({ within: [...CONTAINER, ...MOUNT_PROC] });
      expect(contained).toMatchObject({
        error: expect.stringContaining('runs where this process cannot see it'),
        code: '57P03',
      });
      expect(await query(killed.url!, 'select 1 as one')).toEqual([{ one: 1 }]);
      await (await start()).release();
    },
  );

  it('replaces its own server when that accepts no connections', LONG, async () => {
    await useFolder();
    const killed = await startUser();
    await killAll([killed.child.pid!]);
    const pid = postmasterPid()!;
    const access = join(dataDir, 'postgres', 'data', 'pg_hba.conf');
    const before = readFileSync(access);
    writeFileSync(access, 'host all all 127.0.0.1/32 reject\n');
    process.kill(pid, 'SIGHUP');
    while (await query(killed.url!, 'select 1').catch(() => null)) await sleep(20);
    writeFileSync(access, before);
    const { url } = await start();
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(postmasterPid()).not.toBe(pid);
  });

  it('starts over after an interrupted first start', LONG, async () => {
    const home = join(dataDir, 'postgres');
    mkdirSync(join(home, 'new-1234', 'base'), { recursive: true });
    writeFileSync(join(home, 'new-1234', 'PG_VERSION'), '18\n');
    writeFileSync(join(home, 'new-1234.password'), 'half');
    const { url } = await start();
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(readdirSync(home).filter((name) => name.startsWith('new-'))).toEqual([]);
  });

  it('rejects data of another major version, and says what to do', LONG, async () => {
    await useFolder();
    const version = join(dataDir, 'postgres', 'data', 'PG_VERSION');
    writeFileSync(version, '17\n');
    await expect(start()).rejects.toThrow(
      /created by Postgres 17.*includes Postgres 18.*DATABASE_URL/,
    );
    writeFileSync(version, '18\n');
    await start();
  });

  it('says what to do when the folder cannot be created', async () => {
    writeFileSync(join(root, 'a folder'), 'a file');
    await expect(start()).rejects.toThrow(EmbeddedPostgresError);
    await expect(start()).rejects.toThrow(/can't be used.*WAYBILL_DATA_DIR or DATABASE_URL/);
  });

  it("repeats the server's error when it does not start", LONG, async () => {
    await useFolder();
    renameSync(join(dataDir, 'postgres', 'data', 'global'), join(root, 'global'));
    await expect(start()).rejects.toThrow(/does not start.*\n.*global/s);
  });

  it.skipIf(!canHaveMountNamespace())('says by its code that its disk is full', LONG, async () => {
    await useFolder();
    const full = ['unshare', '-m', 'sh', '-euc', ON_A_FULL_DISK, 'full', dataDir];
    const { error, code } = await startUser({ within: full });
    expect(error).toMatch(/does not start.*\n.*No space left on device/s);
    expect(code).toBe('53100');
  });

  it.skipIf(!canHaveMountNamespace())('says so if its log has no room either', LONG, async () => {
    await useFolder();
    // A further line would need another block of the disk.
    const log = join(dataDir, 'postgres', 'log');
    appendFileSync(log, '\n'.repeat(4_096 - (statSync(log).size % 4_096)));
    const full = ['unshare', '-m', 'sh', '-euc', ON_A_FULL_DISK, 'full', dataDir];
    const { error, code } = await startUser({ within: full });
    expect(error).toMatch(/does not start.*: the disk has no room for its log/);
    expect(code).toBe('53100');
  });

  it.skipIf(!canHaveMountNamespace())('leaves nothing of a first start on a full disk', () => {
    mkdirSync(dataDir, { recursive: true });
    const script = `
        mount -t tmpfs -o size=4m,mode=711 tmpfs "$1"
        "$2" "$3" "$1" < /dev/null
        find "$1/postgres" -name 'new-*'`;
    const program = ['sh', '-euc', script, 'first', dataDir, process.execPath, USER];
    const said = execFileSync('unshare', ['-m', ...program], { encoding: 'utf8' });
    expect(said).toMatch(/^\{"error":"Creating a Postgres cluster .* No space left on device.*\n$/);
  });

  it('says so too if it cannot end a recovery for lack of room', LONG, async () => {
    await useFolder();
    const { url, child } = await startUser();
    await query(url!, 'create table lines (number integer)');
    await killAll([child.pid!, postmasterPid()!]);
    const ofTransactions = join(dataDir, 'postgres', 'data', 'pg_xact', '0000');
    rmSync(ofTransactions);
    symlinkSync('/dev/full', ofTransactions);
    await expect(start()).rejects.toMatchObject({
      message: expect.stringMatching(/does not start.*\n.*checkpoint request failed/s),
      code: '53100',
    });
  });

  it('runs from a copy of its binaries, until the package changes', LONG, async () => {
    const installed = await installedPostgres(join(root, 'unused'));
    const makeCopy = () => copyPostgres(installed, join(root, 'copy'));
    const copy = await makeCopy();
    const program = join(copy, 'bin', 'postgres');
    expect(execFileSync(program, ['--version'], { encoding: 'utf8' })).toMatch(
      /^postgres \(PostgreSQL\) 18/,
    );
    const mark = join(copy, 'mark');
    writeFileSync(mark, '');
    await makeCopy();
    expect(existsSync(mark)).toBe(true);
    writeFileSync(join(copy, 'package.json'), '{"version":"18.3.0"}');
    await makeCopy();
    expect(existsSync(mark)).toBe(false);
    expect(execFileSync(program, ['--version'], { encoding: 'utf8' })).toMatch(/^postgres/);
  });
});

describe('embedded Postgres on a platform without binaries', () => {
  it('names DATABASE_URL', async () => {
    const arch = Object.getOwnPropertyDescriptor(process, 'arch')!;
    Object.defineProperty(process, 'arch', { ...arch, value: 'sparc' });
    try {
      await expect(installedPostgres(join(root, 'unused'))).rejects.toThrow(
        /no embedded Postgres for \w+-sparc.*DATABASE_URL/,
      );
    } finally {
      Object.defineProperty(process, 'arch', arch);
    }
  });
});

describe.skipIf(!isRoot)('embedded Postgres of root (skipped for other users)', () => {
  const owner = () => statSync(join(dataDir, 'postgres', 'data')).uid;

  it('runs as root if user namespaces are allowed', async (ctx) => {
    if (!succeeds('unshare', ['-U', 'true']))
      return ctx.skip('user namespaces are not allowed here');
    await useFolder();
    await start();
    expect(owner()).toBe(0);
  });

  it('runs as the user nobody if user namespaces are not allowed', LONG, async () => {
    chmodSync(root, 0o755);
    mkdirSync(join(root, 'a folder'));
    const user = await startUser({ env: withPrograms(['id', 'chown', 'test']) });
    expect(user.error).toBeUndefined();
    expect(await query(user.url!, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(owner()).toBe(NOBODY);
    // The files keep their owner even if user namespaces are allowed later.
    await user.end();
    const files = ['log', 'server.lock'].map((name) => join(dataDir, 'postgres', name));
    for (const file of files) rmSync(file);
    const { url } = await start();
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(files.map((file) => statSync(file).uid)).toEqual([NOBODY, NOBODY]);
  });

  it('runs as the user nobody below a folder that only root can read', LONG, async (ctx) => {
    if (!canPassCapability) return ctx.skip('root cannot pass on its right to read every folder');
    const user = await startUser({ env: withPrograms(['id', 'chown', 'test', 'setpriv']) });
    expect(user.error).toBeUndefined();
    expect(await query(user.url!, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(owner()).toBe(NOBODY);
  });

  it('says what to do when neither way works', async () => {
    const user = await startUser({ env: withPrograms(['id', 'chown', 'test']) });
    expect(user.error).toMatch(/does not run as root.*WAYBILL_DATA_DIR.*DATABASE_URL/);
  });

  describe.skipIf(!nobodyReachesProject)(
    'with an ordinary user (skipped if that user cannot read this project)',
    () => {
      it('lets the ordinary user run its own server, and shares it', LONG, async () => {
        chmodSync(root, 0o755);
        mkdirSync(join(root, 'a folder'));
        chownSync(join(root, 'a folder'), NOBODY, NOBODY);
        const user = await startUser({ uid: NOBODY });
        expect(user.error).toBeUndefined();
        expect(owner()).toBe(NOBODY);
        const { url } = await start();
        expect(url).toBe(user.url);
      });

      it('tells the ordinary user who owns the data folder', LONG, async () => {
        chmodSync(root, 0o755);
        await (await start()).release();
        chmodSync(join(root, 'a folder'), 0o755);
        chmodSync(dataDir, 0o755);
        const user = await startUser({ uid: NOBODY });
        expect(user.error).toMatch(/belongs to user 0, but this process runs as user 65534/);
      });
    },
  );
});
