import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestProject } from 'vitest/node';
import { connect, type Sql } from '../../../src/adapters/postgres/connect.ts';
import { migrate } from '../../../src/adapters/postgres/migrate.ts';
import { prepareReadModels } from '../../../src/projections/read-models.ts';
import { hostSharedServers } from './host-shared-servers.ts';

const HOLDER = join(import.meta.dirname, '../postgres/temporary.ts');

/**
 * The server that all test files of a run share. Tests are skipped without a server, and fail with
 * a broken one.
 */
export type TestServer =
  | { state: 'ready'; url: string; templates: Record<TemplateName, string> }
  | { state: 'absent' | 'broken'; reason: string };

/** What a new database has: the tables of migrations, or also empty read models of `NO_LOG`. */
export type TemplateName = 'migrated' | 'prepared';

/** The log of prepared read models. They belong to no log yet. */
export const NO_LOG = 'none';

declare module 'vitest' {
  interface ProvidedContext {
    postgres: TestServer;
  }
}

/**
 * Starts one Postgres for the whole run (`TEST_DATABASE_URL`, else an embedded one in a temporary
 * folder), with template databases that `createTestDatabase` clones. Lets test files share servers.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const undo: (() => Promise<unknown>)[] = [];
  project.provide('postgres', await prepare(undo));
  const shared = await hostSharedServers();
  undo.push(shared.close);
  project.provide('sharedServers', shared.url);
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
    return { state: 'ready', url, templates: await createTemplates(url, undo) };
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

async function createTemplates(
  url: string,
  undo: (() => Promise<unknown>)[],
): Promise<Record<TemplateName, string>> {
  const run = randomUUID().slice(0, 8);
  const templates = {
    migrated: `waybill_template_${run}`,
    prepared: `waybill_template_${run}_prepared`,
  };
  const server = connect(url, { max: 1 });

  async function create(name: string, fill: (sql: Sql) => Promise<unknown>, from = 'template1') {
    await server`create database ${server(name)} template ${server(from)}`;
    undo.push(async () => {
      const sql = connect(url, { max: 1 });
      await sql`drop database ${sql(name)} with (force)`.finally(() => sql.end());
    });
    const there = new URL(url);
    there.pathname = name;
    const sql = connect(there.href, { max: 1 });
    await fill(sql).finally(() => sql.end());
  }

  try {
    await create(templates.migrated, migrate);
    const prepare = async (sql: Sql) => void (await prepareReadModels(sql, NO_LOG));
    await create(templates.prepared, prepare, templates.migrated);
  } finally {
    await server.end();
  }
  return templates;
}
