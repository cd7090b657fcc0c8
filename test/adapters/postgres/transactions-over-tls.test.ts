import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { expect, it, onTestFinished } from 'vitest';
import { connect } from '../../../src/adapters/postgres/connect.ts';
import { createCertificates } from '../../support/certificates.ts';
import { createTestDatabase, describeWithPostgres } from '../../support/postgres.ts';

// Adds TLS to a Postgres. In a thread, because the test blocks its own.
const TLS_PROXY = `
  const { connect, createServer } = require('node:net');
  const { createSecureContext, TLSSocket } = require('node:tls');
  const { parentPort, workerData } = require('node:worker_threads');
  const secureContext = createSecureContext(workerData.certificate);
  const server = createServer((socket) => socket.once('data', () => {
    // The answer to the request for TLS.
    socket.write('S');
    const client = new TLSSocket(socket, { isServer: true, secureContext });
    const upstream = connect(workerData.target);
    for (const each of [socket, client, upstream]) each.on('error', () => {});
    client.pipe(upstream).pipe(client);
  }));
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
`;

describeWithPostgres('a transaction over TLS', () => {
  it('gets no statement of others if its answer overtakes the end of a write', async () => {
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());
    const { valid } = await createCertificates();
    const url = new URL(database.url);
    const target = { host: url.hostname, port: Number(url.port) };
    const proxy = new Worker(TLS_PROXY, { eval: true, workerData: { certificate: valid, target } });
    onTestFinished(async () => void (await proxy.terminate()));
    const [port] = await once(proxy, 'message');
    url.host = `127.0.0.1:${port}`;
    url.searchParams.set('sslmode', 'require');
    const sql = connect(url.href, { max: 1 });
    onTestFinished(() => sql.end({ timeout: 1 }));

    await sql`create table public.written (part text)`;
    // More than a socket takes without a `drain`.
    const big = 'x'.repeat(100_000);
    // Prepares the statement, so that it is sent in one piece.
    await sql`insert into public.written values (${big})`;
    let outside: Promise<unknown> | null = null;
    const transaction = sql.begin(async (tx) => {
      outside = sql`insert into public.written values ('outside')`.execute();
      // Node.js ends a write over TLS after it has read what arrived. After a timer, that may be
      // the answer, if the process is busy until then.
      await sleep(1);
      const inserted = tx`insert into public.written values (${big})`.execute();
      for (let turn = 0; turn < 5; turn++) await null;
      const busyUntil = performance.now() + 300;
      while (performance.now() < busyUntil);
      await inserted;
      await sleep(50);
      throw new Error('undone');
    });
    await expect(transaction).rejects.toThrow('undone');
    await outside;
    expect(await sql`select left(part, 7) as part from public.written`).toEqual([
      { part: 'xxxxxxx' },
      { part: 'outside' },
    ]);
  });
});
