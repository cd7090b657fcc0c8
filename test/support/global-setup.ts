import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestProject } from 'vitest/node';
import { connect } from '../../src/adapters/postgres/connect.ts';
import { migrate } from '../../src/adapters/postgres/migrate.ts';

const HOLDER = join(import.meta.dirname, 'temporary-postgres.ts');

/**
 * The server that all test files of a run share. Tests are skipped without a server, and fail with
 * a broken one.
 */
export type TestServer =
  | { state: 'ready'; url: string; template: string }
  | { state: 'absent' | 'broken'; reason: string };

declare module 'vitest' {
  interface ProvidedContext {
    postgres: TestServer;
  }
}

/**
 * Starts one Postgres for the whole run (`TEST_DATABASE_URL`, else an embedded one in a temporary
 * folder), with a migrated template database that `createTestDatabase` clones.
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
  // Runs in a separate session: Ctrl-C ends this process, and thereby the input of the other one.
  const child = spawn(process.execPath, [HOLDER], {
    detached: true,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const exit = once(child, 'exit');
  undo.push(() => {
    child.stdin.end();
    return exit;
  });
  const [line] = await once(createInterface(child.stdout), 'line');
  const { url, error }: { url?: string; error?: string } = JSON.parse(line);
  if (url === undefined) throw new Error(error);
  return url;
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
