import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import type { OpenAPIV3_1 } from 'openapi-types';
import { expect } from 'vitest';
import type { Schema } from '../../../src/http/openapi/schema.ts';
import type { TestApi } from '../http/api.ts';

export const exec = promisify(execFile);

export const PROGRAMS = resolve(import.meta.dirname, '../../generated-clients');

/** A temporary folder with the OpenAPI document and programs that use generated clients. */
export interface Workshop {
  folder: string;
  /** The file with the OpenAPI document. */
  document: string;
  content: OpenAPIV3_1.Document;
  /** Runs a program of npm packages with Node.js in the folder. */
  node(program: string, ...args: string[]): Promise<string>;
  remove(): Promise<void>;
}

/** Creates the folder. `packages` is where npm installed the generators. */
export async function openWorkshop(api: TestApi, packages: string): Promise<Workshop> {
  const folder = await mkdtemp(join(tmpdir(), 'waybill-clients-'));
  const document = join(folder, 'openapi.json');
  const { body } = await api.ask('GET', '/v1/openapi.json', { key: null });
  await writeFile(document, JSON.stringify(body));
  await cp(PROGRAMS, folder, { recursive: true });
  await symlink(join(packages, 'node_modules'), join(folder, 'node_modules'));
  return {
    folder,
    document,
    content: body,
    async node(program, ...args) {
      return output(process.execPath, [program, ...args], folder);
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Returns what a program prints. Throws with all of its output if it fails. */
export async function output(program: string, args: string[], cwd: string): Promise<string> {
  try {
    const { stdout } = await exec(program, args, { cwd, maxBuffer: 1 << 26 });
    return stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string };
    throw new Error(`${program} ${args.join(' ')} failed:\n${stdout}${stderr}`, { cause: error });
  }
}

/** Returns each object of the document, with its path. */
export function* objectsIn(value: unknown, path = ''): Generator<[path: string, schema: Schema]> {
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) yield [path, value as Schema];
  for (const [name, part] of Object.entries(value)) yield* objectsIn(part, `${path}/${name}`);
}

/** Returns every regular expression of the document. Examples have globs. */
export function patternsIn(document: OpenAPIV3_1.Document): string[] {
  return [...objectsIn(document)].flatMap(([path, { pattern }]) =>
    typeof pattern === 'string' && !/\/examples?(\/|$)/.test(path) ? [pattern] : [],
  );
}

/** Expects what each program of `test/generated-clients` prints after all of its requests. */
export function expectFlows(printed: string): void {
  expect(JSON.parse(printed)).toEqual({
    created: 'pending',
    listed: true,
    cancelled: 'cancelled',
    detail: ['cancelled', null, null],
    secret: 'whsec_',
    enabled: true,
    batch: ['normal', null],
    removed: 204,
    run: ['run_', 'requested'],
    rejected: [400, 'endpoint_not_configured'],
  });
}
