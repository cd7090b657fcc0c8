import { randomUUID } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import type { TestProject } from 'vitest/node';
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
  const dataDir = await mkdtemp(join(tmpdir(), 'waybill-test-'));
  undo.push(() => rm(dataDir, { recursive: true, force: true }));
  await chmod(dataDir, 0o711);
  const server = await startEmbeddedPostgres({ dataDir, logger: pino({ level: 'silent' }), settings: FOR_SPEED });
  undo.push(server.release);
  return server.url;
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
