import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { connect } from '../../../src/adapters/postgres/connect.ts';
import { DatabaseUrlError, readDatabaseUrl } from '../../../src/adapters/postgres/database-url.ts';
import { requireOwnSessions } from '../../../src/adapters/postgres/own-sessions.ts';
import { createCertificates, type TestCertificates } from '../../support/network/certificates.ts';
import { addTls } from '../../support/postgres/over-tls.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';

const folder = mkdtempSync(join(tmpdir(), 'waybill-database-url-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe('the URL of Postgres', () => {
  const ADDRESS = 'postgres://me:a%3Fb@[::1]:5432,db.example/waybill';

  it('keeps what the driver and the server read', () => {
    const rest = 'target_session_attrs=read-write&options=-c+geqo%3Doff';
    expect(readDatabaseUrl(`${ADDRESS}?sslmode=require&${rest}`)).toEqual({
      url: `${ADDRESS}?${rest}`,
      tls: { rejectUnauthorized: false },
    });
  });

  it.each([
    ['', false],
    ['?sslmode=disable', false],
    ['?sslmode=allow', 'prefer'],
    ['?sslmode=prefer', 'prefer'],
    ['?sslrootcert=system', expect.objectContaining({ rejectUnauthorized: true })],
    ['?sslmode=verify-full', expect.objectContaining({ rejectUnauthorized: true })],
  ])('says with "%s" how connections use TLS', (query, tls) => {
    expect(readDatabaseUrl(ADDRESS + query)).toEqual({ url: ADDRESS, tls });
  });

  it.each([
    ['sslmode=on', /unknown sslmode: use one of disable, .*verify-full/],
    ['sslmode=prefer&sslrootcert=ca.pem', /without effect: add sslmode=verify-full/],
    ['sslmode=require&sslcert=client.pem', /needs both sslcert and sslkey/],
    ['sslmode=verify-ca&sslrootcert=/none.pem', /file in sslrootcert that cannot be read: ENOENT/],
  ])('is rejected with %s', (query, message) => {
    const rejected = () => connect(`${ADDRESS}?${query}`);
    expect(rejected).toThrow(DatabaseUrlError);
    expect(rejected).toThrow(message);
  });

  it.each([
    ['postgres://me:canary@db.example:99999/waybill', /port .* from 1 to 65535/],
    ['postgres://me:canary@one.example,two.example:0/waybill', /port .* from 1 to 65535/],
    ['postgres://me:canary%zz@db.example/waybill', /every special character .* as %XX/],
    ['postgres://me:420815', /^(?!.*420815).*port .* from 1 to 65535/],
    ['postgres://me:can/ary@db.example/waybill', /@ after its address: .* as %XX/],
    [
      'postgres://me:canary@db.example/waybill?target_session_attrs=rw',
      /attrs rw is not supported/,
    ],
  ])('is rejected if it is %s', (url, message) => {
    const rejected = () => connect(url);
    expect(rejected).toThrow(DatabaseUrlError);
    expect(rejected).toThrow(message);
    expect(rejected).not.toThrow(/canary/);
  });
});

describeWithPostgres('a server that cannot do what the URL asks for', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database?.drop());

  it.each([
    ['sslmode=require', /has no TLS, but sslmode .* requires it: /],
    ['work_memory=4MB', /rejects a parameter .*unrecognized configuration parameter "work_memory"/],
    ['work_mem=much', /rejects a parameter .*invalid value for parameter "work_mem"/],
  ])('is named with %s', async (query, message) => {
    const sql = connect(`${database.url}?${query}`, { max: 1 });
    onTestFinished(() => sql.end({ timeout: 1 }));
    const refused = requireOwnSessions([sql]);
    await expect(refused).rejects.toThrow(DatabaseUrlError);
    await expect(refused).rejects.toThrow(message);
  });
});

describeWithPostgres('a connection over TLS', () => {
  let database: TestDatabase;
  let certificates: TestCertificates;
  let ca: string;
  beforeAll(async () => {
    [database, certificates] = await Promise.all([createTestDatabase(), createCertificates()]);
    ca = file('ca.pem', certificates.caPem);
  });
  afterAll(() => database?.drop());

  let stop = async () => {};
  afterEach(() => stop());

  function file(name: string, text: string): string {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  }

  /** Returns `connected`, or why it was not. */
  async function outcome(
    certificate: Exclude<keyof TestCertificates, 'caPem'>,
    parameters: Record<string, string>,
    clientCa?: string,
  ): Promise<string> {
    const server = await addTls(database.url, certificates[certificate], clientCa);
    stop = server.stop;
    const sql = connect(`${server.url}?${new URLSearchParams(parameters)}`, { max: 1 });
    onTestFinished(() => sql.end({ timeout: 1 }));
    return requireOwnSessions([sql]).then(
      () => 'connected',
      (error: Error) => `${error.name}: ${error.message}`,
    );
  }

  const NOT_ACCEPTED = /^DatabaseUrlError: The certificate of Postgres is not accepted: /;

  it.each([
    ['valid', 'require', false, /^connected$/],
    ['untrusted', 'require', false, /^connected$/],
    ['untrusted', 'require', true, NOT_ACCEPTED],
    ['valid', 'verify-full', false, NOT_ACCEPTED],
    ['valid', 'verify-full', true, /^connected$/],
    ['otherName', 'verify-full', true, NOT_ACCEPTED],
    ['otherName', 'verify-ca', true, /^connected$/],
    ['expired', 'verify-ca', true, NOT_ACCEPTED],
  ] as const)('to a server that is %s, with sslmode=%s, own authority: %s', async (...row) => {
    const [certificate, sslmode, own, expected] = row;
    const parameters = { sslmode, ...(own ? { sslrootcert: ca } : {}) };
    expect(await outcome(certificate, parameters)).toMatch(expected);
  });

  it('shows a certificate of the client', async () => {
    const trusted = { sslmode: 'verify-full', sslrootcert: ca };
    const { cert, key } = certificates.valid;
    const own = { sslcert: file('client.pem', cert), sslkey: file('client.key', key) };
    expect(await outcome('valid', { ...trusted, ...own }, certificates.caPem)).toBe('connected');
    await stop();
    expect(await outcome('valid', trusted, certificates.caPem)).not.toBe('connected');
  });
});
