import { randomUUID } from 'node:crypto';
import { chmod, mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import type { TestProject } from 'vitest/node';
import { tryFileLock } from '../../src/adapters/file-lock.ts';
import { connect } from '../../src/adapters/postgres/connect.ts';
import { startEmbeddedPostgres } from '../../src/adapters/postgres/embedded.ts';
import { migrate } from '../../src/adapters/postgres/migrate.ts';

/** The server that all test files of a run share. Without one tests are skipped; with a broken one they fail. */
export type TestServer = { state: 'ready'; url: string; template: string } | { state: 'absent' | 'broken'; reason: string };

declare module 'vitest' {
  interface ProvidedContext {
    postgres: TestServer;
  }
}

const TEMPORARY = 'waybill-test-postgres-';
const LEFT_AFTER_MS = 10 * 60_000;
const logger = pino({ level: 'warn' });

/** Nothing here needs to outlive a crash. */
const FOR_SPEED = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off', max_connections: '400' };

/**
 * One Postgres for the whole run (`TEST_DATABASE_URL`, else an embedded one in a temporary folder), with a
 * migrated template database that `createTestDatabase` clones.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const undo: (() => Promise<unknown>)[] = [];
  project.provide('postgres', await prepare(undo));
  return async () => {
    for (const step of undo.reverse()) await step();
  };
}

async function prepare(undo: (() => Promise<unknown>)[]): Promise<TestServer> {
  let url = process.env.TEST_DATABASE_URL;
  try {
    url ??= await startTemporaryPostgres(undo);
  } catch (error) {
    return { state: 'absent', reason: (error as Error).message };
  }
  try {
    return { state: 'ready', url, template: await createTemplate(url, undo) };
  } catch (error) {
    return { state: 'broken', reason: (error as Error).message };
  }
}

async function startTemporaryPostgres(undo: (() => Promise<unknown>)[]): Promise<string> {
  await removeLeftovers();
  const dataDir = await mkdtemp(join(tmpdir(), TEMPORARY));
  undo.push(() => rm(dataDir, { recursive: true, force: true }));
  await chmod(dataDir, 0o711);
  const server = await startEmbeddedPostgres({ dataDir, logger, settings: FOR_SPEED });
  undo.push(server.release);
  return server.url;
}

/** Stops and removes the servers of runs that were killed: of those that have had time to start and that nobody uses. */
async function removeLeftovers(): Promise<void> {
  const folders = (await readdir(tmpdir())).filter((name) => name.startsWith(TEMPORARY)).map((name) => join(tmpdir(), name));
  for (const dataDir of folders) {
    try {
      if (Date.now() - (await stat(dataDir)).mtimeMs < LEFT_AFTER_MS) continue;
      const unused = tryFileLock(join(dataDir, 'postgres', 'users.lock'), 'exclusive');
      if (unused === null) continue;
      unused.release();
      await (await startEmbeddedPostgres({ dataDir, logger, settings: FOR_SPEED })).release();
      await rm(dataDir, { recursive: true, force: true });
    } catch (error) {
      logger.warn({ err: error, dataDir }, 'a test server of an earlier run can not be removed');
    }
  }
}

async function createTemplate(url: string, undo: (() => Promise<unknown>)[]): Promise<string> {
  const template = `waybill_template_${randomUUID().slice(0, 8)}`;
  const server = connect(url, { max: 1 });
  try {
    await server`create database ${server(template)}`;
    undo.push(async () => {
      const sql = connect(url, { max: 1 });
      await sql`drop database ${sql(template)} with (force)`.finally(() => sql.end());
    });
    const there = new URL(url);
    there.pathname = template;
    const sql = connect(there.href, { max: 1 });
    await migrate(sql).finally(() => sql.end());
  } finally {
    await server.end();
  }
  return template;
}
