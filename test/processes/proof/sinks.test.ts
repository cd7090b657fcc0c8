import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { checkpointFile } from '../../../src/adapters/checkpoint-sinks/port.ts';
import { headOfNote, type TreeHead } from '../../../src/domain/proof/checkpoint.ts';
import { isConsistent } from '../../../src/domain/proof/proofs.ts';
import { checkpointNow } from '../../../src/processes/proof/checkpoint-now.ts';
import { createEndpointSink } from '../../../src/processes/proof/endpoint-sink.ts';
import { openCheckpointSink, openSinks } from '../../../src/processes/proof/open-sink.ts';
import { sinkStates } from '../../../src/processes/proof/sink-table.ts';
import { type NamedSink, runSinks, type SinkStatus } from '../../../src/processes/proof/sinks.ts';
import { sinkFaults } from '../../../src/processes/verification/sink-faults.ts';
import { rebuildProjection } from '../../../src/projections/rebuild/rebuild.ts';
import { ENDPOINT_KINDS, type TestEndpoint } from '../../support/file-servers/endpoints.ts';
import { startSftpServer, whyNoSftpServer } from '../../support/file-servers/sftp/server.ts';
import { startTcpProxy } from '../../support/network/tcp-proxy.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  configureEndpoint,
  configureSftp,
  openTestInstallation,
  type TestInstallation,
} from '../../support/service/installation.ts';
import { appendTransfer } from '../../support/webhooks/webhooks.ts';

/** A witness as tlog-witness describes it, without its own signatures. */
async function startWitness() {
  let last: TreeHead | null = null;
  let up = true;
  const server: Server = createServer(async (request, response) => {
    const body = await text(request);
    const answer = (status: number, content = '') =>
      response.writeHead(status).end(up ? content : 'down');
    if (!up) return answer(503);
    const [proofs = '', ...rest] = body.split('\n\n');
    const [old = '', ...lines] = proofs.split('\n');
    const head = headOfNote(rest.join('\n\n'));
    if (request.url !== '/log/add-checkpoint' || !head) return answer(400);
    if (old !== `old ${last?.size ?? 0}`) return answer(409, `${last?.size ?? 0}\n`);
    const proof = lines.map((line) => Buffer.from(line, 'base64'));
    if (last && !isConsistent(last, head, proof)) return answer(422);
    last = head;
    return answer(200, 'a cosignature\n');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/log`,
    last: () => last,
    remember(head: TreeHead) {
      last = head;
    },
    answer(isUp: boolean) {
      up = isUp;
    },
    close: () => server.close(),
  };
}

const noSftp = await whyNoSftpServer();

describeWithPostgres('the sinks of checkpoints', () => {
  let installation: TestInstallation;
  let witness: Awaited<ReturnType<typeof startWitness>>;
  let folder: string;
  let bucket: TestEndpoint;
  beforeAll(async () => {
    installation = await openTestInstallation();
    witness = await startWitness();
    folder = await mkdtemp(join(tmpdir(), 'waybill-sink-'));
    bucket = await ENDPOINT_KINDS['s3-strict'].start();
    await configureEndpoint(installation, { ...bucket.request, name: 'vault' });
  });
  afterAll(async () => {
    witness?.close();
    await bucket?.stop();
    await installation?.close();
    if (folder) await rm(folder, { recursive: true, force: true });
  });

  async function sign() {
    await appendTransfer(installation.store, ['cancelled']);
    return checkpointNow(installation, CAUSE);
  }

  function opened(urls: string[]): NamedSink[] {
    return openSinks({ ...installation, endpoints: installation.commands.endpoints }, urls);
  }

  /** Runs the sinks of these URLs until the work is done. */
  async function whileRunning(
    urls: string[],
    work: (statuses: (SinkStatus | undefined)[]) => Promise<void>,
  ): Promise<void> {
    const stopping = new AbortController();
    const statuses: (SinkStatus | undefined)[] = [];
    const sinks = opened(urls);
    const report = (index: number, status: SinkStatus) => {
      statuses[index] = status;
    };
    const running = runSinks(installation, sinks, stopping.signal, report, 50);
    try {
      await work(statuses);
    } finally {
      stopping.abort();
      await running;
    }
  }
  const eventually = <T>(read: () => T | Promise<T>) => expect.poll(read, { timeout: 30_000 });
  const keeps = (size: number): SinkStatus => ({ state: 'keeping', size, failing: 'no' });

  it('keep the last checkpoint in a folder and at a witness, also after a restart', async () => {
    const urls = [pathToFileURL(folder).href, witness.url];
    const first = await sign();
    await whileRunning(urls, async (statuses) => {
      await eventually(() => statuses).toEqual([keeps(first.size), keeps(first.size)]);
      const second = await sign();
      await eventually(() => statuses).toEqual([keeps(second.size), keeps(second.size)]);
    });
    const third = await sign();
    await whileRunning(urls, async (statuses) => {
      await eventually(() => statuses).toEqual([keeps(third.size), keeps(third.size)]);
    });
    expect(witness.last()).toEqual(headOfNote(third.note));
    const files = await readdir(folder);
    expect(files).toHaveLength(3);
    const name = `checkpoint-${String(third.size).padStart(12, '0')}.txt`;
    expect(await readFile(join(folder, name), 'utf8')).toBe(third.note);
  });

  it('say in one line that no endpoint is configured for them, at growing intervals', async () => {
    await sign();
    const lines: Record<string, unknown>[] = [];
    const logger = pino({}, { write: (line) => void lines.push(JSON.parse(line)) });
    const stopping = new AbortController();
    const deps = { ...installation, logger, endpoints: installation.commands.endpoints };
    const url = 's3://nowhere/checkpoints';
    const sinks = [{ url, sink: openCheckpointSink(deps, url) }];
    const running = runSinks(deps, sinks, stopping.signal, () => undefined, 50);
    await eventually(() => lines.length).toBeGreaterThan(2);
    stopping.abort();
    await running;
    expect(lines.map(({ msg }) => msg).slice(0, 3)).toEqual(
      [0.05, 0.1, 0.2].map((s) => `a sink did not take a checkpoint; retrying in ${s} s`),
    );
    const reason =
      `no endpoint is configured for ${url}: add the endpoint, or correct ` +
      'WAYBILL_CHECKPOINT_SINKS';
    expect(lines[0]).toMatchObject({ sink: 1, reason });
    expect(JSON.stringify(lines)).not.toContain('stack');
  });

  it('keep the last checkpoint in a bucket, and replace none', async () => {
    const { size, note } = await sign();
    const urls = ['s3://vault/checkpoints'];
    const name = `checkpoints/checkpoint-${String(size).padStart(12, '0')}.txt`;
    for (const _ of ['first', 'after a restart'])
      await whileRunning(urls, async (statuses) => {
        await eventually(() => statuses).toEqual([keeps(size)]);
      });
    expect(await bucket.names('checkpoints')).toEqual([name]);
    const kept = await bucket.read(name);
    expect(kept && (await text(kept))).toBe(note);

    await bucket.put(name, Buffer.from('another note'));
    await whileRunning(urls, async (statuses) => {
      await eventually(() => statuses[0]?.failing).toBe('refuses');
    });
    await whileRunning(['s3://nowhere/checkpoints'], async (statuses) => {
      await eventually(() => statuses[0]?.failing).toBe('retries');
    });
  });

  it.each(ENDPOINT_KINDS.sftp.whyNot === null ? ['folder', 'endpoint'] : ['folder'])(
    'get nothing more while their %s lacks the last checkpoint that it took',
    async (kind) => {
      const disk = kind === 'folder' ? null : await ENDPOINT_KINDS.sftp.start();
      if (disk) await configureEndpoint(installation, { ...disk.request, name: 'disk' });
      const own = disk?.root ?? (await mkdtemp(join(tmpdir(), 'waybill-sink-')));
      const url = disk ? 'sftp://disk/kept/' : pathToFileURL(own).href;
      onTestFinished(async () => {
        await disk?.stop();
        await rm(own, { recursive: true, force: true });
      });
      const { size } = await sign();
      await whileRunning([url], async (statuses) => {
        await eventually(() => statuses).toEqual([keeps(size)]);
      });
      const file = join(own, disk ? 'kept' : '', checkpointFile(size));
      await rename(file, `${own}-lost`);
      const lost = async () => {
        for await (const { problem } of sinkFaults(installation.sql, opened([url]))) return problem;
        return null;
      };
      const problem = `lacks the checkpoint over ${size} events, which it took: the file was removed`;
      expect(await lost()).toContain(`place 1 of WAYBILL_CHECKPOINT_SINKS ${problem}`);
      const next = await sign();
      for (const _ of ['first', 'after a restart'])
        await whileRunning([url], async () => {
          await eventually(() => sinkStates(installation.sql, [url])).toMatchObject([
            { state: { size, error: expect.stringContaining(`it ${problem}`), refuses: false } },
          ]);
        });
      await rename(`${own}-lost`, file);
      expect(await lost()).toBeNull();
      await whileRunning([url], async (statuses) => {
        await eventually(() => statuses).toEqual([keeps(next.size)]);
        // Also while the process runs.
        await rm(file.replace(checkpointFile(size), checkpointFile(next.size)));
        await sign();
        await eventually(() => statuses[0]?.failing).toBe('retries');
      });
    },
  );

  it('are asked again when they failed', async () => {
    const away = `${folder}-away`;
    await rename(folder, away);
    witness.answer(false);
    const { size } = await sign();
    await whileRunning([pathToFileURL(folder).href, witness.url], async (statuses) => {
      await eventually(() => statuses.map((status) => status?.failing)).toEqual([
        'retries',
        'retries',
      ]);
      const urls = [pathToFileURL(folder).href, witness.url, 'file:///new'];
      const states = () => sinkStates(installation.sql, urls);
      await eventually(states).toMatchObject([
        { state: { error: expect.stringContaining('ENOENT'), refuses: false } },
        { state: { error: 'the witness answered 503: down', refuses: false } },
        { url: 'file:///new', state: null },
      ]);
      for (const { state } of (await states()).slice(0, 2))
        expect(state?.next_try_at).toEqual(expect.any(String));
      await rename(away, folder);
      witness.answer(true);
      await eventually(() => statuses).toEqual([keeps(size), keeps(size)]);
      const kept = { size, error: null, next_try_at: null, taken_at: expect.any(String) };
      await eventually(states).toMatchObject([{ state: kept }, { state: kept }, { state: null }]);
    });
  });

  it('say that a server does not answer', async () => {
    const { hostname, port } = new URL(String(bucket.request.endpoint_url));
    const line = await startTcpProxy({ host: hostname, port: Number(port) });
    onTestFinished(() => line.close());
    const endpoint_url = `http://127.0.0.1:${line.port}`;
    await configureEndpoint(installation, { ...bucket.request, name: 'silent', endpoint_url });
    line.stall(true);
    const deps = { ...installation, endpoints: installation.commands.endpoints };
    const sink = createEndpointSink(deps, 's3://silent/checkpoints/', 500);
    const kept = sink.keep({ size: 1, note: 'a note' }, async () => []);
    await expect(kept).rejects.toThrow('No answer within 0.5 s');
    await expect(sink.has(1)).rejects.toThrow('No answer within 0.5 s');
  });

  const leavesNoPart = 'leave no part at a server that falls silent';
  it.skipIf(noSftp)(noSftp ? `${leavesNoPart} (skipped: ${noSftp})` : leavesNoPart, async () => {
    const server = await startSftpServer();
    const line = await startTcpProxy(server);
    onTestFinished(async () => {
      await line.close();
      await server.stop();
    });
    await configureSftp(installation, 'shelf', { ...server, port: line.port });
    const there = () => readdir(join(server.root, 'checkpoints')).catch(() => []);
    const held = line.holdWhen(async () => (await there()).length > 0, 'up');
    const deps = { ...installation, endpoints: installation.commands.endpoints };
    const sink = createEndpointSink(deps, 'sftp://shelf/checkpoints/', 1_000);
    const kept = sink.keep({ size: 1, note: 'a note' }, async () => []);
    await held;
    await expect(kept).rejects.toThrow('No answer within 1 s');
    expect(await there()).toEqual([]);
  });

  it('keep checkpoints also if they do not show what they have', async () => {
    const silent = await mkdtemp(join(tmpdir(), 'waybill-sink-'));
    // A folder in place of the file that would be read.
    await mkdir(join(silent, 'checkpoint-999999999999.txt'));
    const { size } = await sign();
    await whileRunning([pathToFileURL(silent).href], async (statuses) => {
      await eventually(() => statuses).toEqual([keeps(size)]);
    });
    await rm(silent, { recursive: true });
  });

  it('are asked again if an older copy replaces log and tables meanwhile', async () => {
    const own = await mkdtemp(join(tmpdir(), 'waybill-sink-'));
    await sign();
    const { sql } = installation;
    await sql`create table public.copy as select * from log.events`;
    await whileRunning([pathToFileURL(own).href, witness.url], async (statuses) => {
      const lost = await sign();
      await eventually(() => statuses).toEqual([keeps(lost.size), keeps(lost.size)]);
      await sql.begin(async (tx) => {
        await tx`alter table log.events disable trigger user`;
        await tx`delete from log.events`;
        await tx`insert into log.events select * from public.copy`;
        await tx`update log.head set position = (select max(position) from log.events)`;
        await tx`alter table log.events enable trigger user`;
      });
      await rebuildProjection(installation, 'proof', () => undefined);
      await eventually(() => statuses.map((status) => status?.failing)).toEqual([
        'refuses',
        'refuses',
      ]);
    });
    await sql`drop table public.copy`;
    await rm(own, { recursive: true });
  });

  it('say so if they hold what contradicts the log', async () => {
    const signed = await sign();
    const { size, root } = headOfNote(signed.note) as TreeHead;
    const name = `checkpoint-${String(size).padStart(12, '0')}.txt`;
    await writeFile(join(folder, name), 'another note');
    witness.remember({ origin: 'another', size: size - 1, root });
    await whileRunning([pathToFileURL(folder).href, witness.url], async (statuses) => {
      await eventually(() => statuses.map((status) => status?.failing)).toEqual([
        'refuses',
        'refuses',
      ]);
    });
    expect(await readFile(join(folder, name), 'utf8')).toBe('another note');
    const problems: string[] = [];
    for await (const { problem } of sinkFaults(installation.sql, opened([witness.url])))
      problems.push(problem);
    expect(problems).toEqual([
      expect.stringMatching(
        /^place 1 of WAYBILL_CHECKPOINT_SINKS contradicts the log: the witness/,
      ),
    ]);
  });
});
