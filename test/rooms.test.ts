import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { expect, test } from 'vitest';
import { PROTOCOL_NAMES } from '../src/domain/protocols/index.ts';

/** The rooms that carry out commands and show their results. */
const ROOMS = ['domain', 'concurrency', 'contract', 'adapters', 'projections', 'commands'];

/** The rooms and files of `src` that each room may import. docs/architecture.md explains them. */
const MAY_IMPORT: Record<string, string[]> = {
  domain: [],
  concurrency: [],
  contract: ['domain'],
  adapters: ['domain', 'concurrency'],
  projections: ['domain', 'concurrency', 'adapters'],
  commands: ['domain', 'concurrency', 'contract', 'adapters'],
  processes: ROOMS,
  http: [...ROOMS, 'processes', 'config.ts'],
  console: ['domain'],
  cli: [
    ...ROOMS,
    ...['processes', 'dev'],
    ...['config.ts', 'installation.ts', 'process-roles.ts', 'service.ts', 'start-up.ts'],
  ],
  settings: ['domain'],
  dev: ['domain', 'contract', 'projections', 'commands', 'installation.ts'],
};

/** The packages that rooms without I/O may import. */
const PACKAGES: Record<string, string[]> = {
  domain: ['zod', 'ulid', 'canonicalize', 'croner', 'node:crypto', 'node:net'],
  contract: ['zod', 'csv-stringify/sync'],
};

/** The demo says how its SFTP servers encrypt. */
const KNOWS_A_PROTOCOL = ['cli/installation/run-demo.ts'];

/** The modules that hold commands. The others in that room are its own tools. */
const COMMANDS = [
  'create-transfer',
  'create-batch',
  'transfers',
  'endpoints',
  'keys',
  'webhooks',
  'batches',
  'flows',
  'bulk',
  'log',
  'retention',
].map((name) => `${name}.ts`);

/** The only code of the service that a browser loads. */
const FOR_THE_BROWSER = 'domain/attention.ts';

interface Import {
  file: string;
  room: string;
  /** A room or top-level file of `src`, the name of a package, or null for the same room. */
  target: string | null;
  path: string;
  typeOnly: boolean;
}

const STATEMENT =
  /\b(?:import|export)\s(type\s)?[^;'"]*?\bfrom\s+'([^']+)'|\bimport\(?\s*'([^']+)'/g;

function importsOf(file: string): Import[] {
  const room = file.split('/')[0] as string;
  return [...readFileSync(join('src', file), 'utf8').matchAll(STATEMENT)].map((match) => {
    const specifier = match[2] ?? match[3] ?? '';
    const path = specifier.startsWith('.') ? normalize(join(file, '..', specifier)) : specifier;
    const target = specifier.startsWith('.') ? (path.split('/')[0] as string) : specifier;
    return {
      file,
      room,
      target: target === room ? null : target,
      path,
      typeOnly: match[1] !== undefined,
    };
  });
}

const FILES = globSync('**/*.{ts,tsx}', { cwd: 'src' });
const IMPORTS = FILES.filter((file) => file.includes('/')).flatMap(importsOf);
const isPackage = ({ path }: Import) => !/\.(ts|tsx|css|json)$/.test(path);
const shown = (found: Import[]) => found.map(({ file, path }) => `${file} imports ${path}`);

test.each(Object.keys(MAY_IMPORT))('src/%s imports only the rooms below it', (room) => {
  const own = IMPORTS.filter((each) => each.room === room);
  expect(own.length).toBeGreaterThan(0);
  const wrong = own.filter(
    (each) => !isPackage(each) && each.target !== null && !MAY_IMPORT[room]?.includes(each.target),
  );
  expect(shown(wrong)).toEqual([]);
});

test('every folder of src is a room', () => {
  const folders = new Set(IMPORTS.map(({ room }) => room));
  expect([...folders].filter((room) => !(room in MAY_IMPORT))).toEqual([]);
});

test.each(Object.entries(PACKAGES))('src/%s imports no package except %j', (room, packages) => {
  const wrong = IMPORTS.filter(
    (each) => each.room === room && isPackage(each) && !packages.includes(each.path),
  );
  expect(shown(wrong)).toEqual([]);
});

test('only the adapters know the folder of a protocol', () => {
  const wrong = IMPORTS.filter(
    ({ room, file, path }) =>
      room !== 'adapters' &&
      PROTOCOL_NAMES.some((name) => path.startsWith(`adapters/files/${name}/`)) &&
      !KNOWS_A_PROTOCOL.includes(file),
  );
  expect(shown(wrong)).toEqual([]);
});

test('processes import only commands and types from src/commands', () => {
  const wrong = IMPORTS.filter(
    ({ room, target, path, typeOnly }) =>
      room === 'processes' &&
      target === 'commands' &&
      !typeOnly &&
      !COMMANDS.includes(path.slice('commands/'.length)),
  );
  expect(shown(wrong)).toEqual([]);
});

test('the console imports only types from the rooms of the service, and what imports nothing', () => {
  const wrong = IMPORTS.filter(
    (each) =>
      each.room === 'console' &&
      each.target === 'domain' &&
      !each.typeOnly &&
      each.path !== FOR_THE_BROWSER,
  );
  expect(shown(wrong)).toEqual([]);
  expect(importsOf(FOR_THE_BROWSER)).toEqual([]);
});

test.each([
  ['test/support', '| Folder of `test/support` |'],
  ['src/console/components', '| Folder of `components` |'],
])('docs/architecture.md lists the folders of %s, and each file is in one', (place, heading) => {
  const [, table = ''] = readFileSync('docs/architecture.md', 'utf8').split(heading);
  const documented = [...(table.split('\n\n')[0] ?? '').matchAll(/^\| `([\w-]+)` \|/gm)];
  const found = new Set(globSync('**/*.*', { cwd: place }).map((file) => file.split('/')[0]));
  expect([...found].toSorted()).toEqual(documented.map(([, name]) => name).toSorted());
});

/** Returns the files of one circle of imports, or null if there is none. */
function circleIn(imports: Map<string, string[]>): string[] | null {
  const done = new Set<string>();
  function circleFrom(file: string, path: string[]): string[] | null {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (done.has(file)) return null;
    for (const next of imports.get(file) ?? []) {
      const circle = circleFrom(next, [...path, file]);
      if (circle) return circle;
    }
    done.add(file);
    return null;
  }
  for (const file of imports.keys()) {
    const circle = circleFrom(file, []);
    if (circle) return circle;
  }
  return null;
}

test('no circle of imports is in src, nor of types', () => {
  const imports = FILES.map((file) => [file, importsOf(file).map(({ path }) => path)] as const);
  expect(circleIn(new Map(imports))).toBeNull();
});

/** Every folder of `src` that has folders. */
const PARENTS = [...new Set(FILES.map((file) => dirname(dirname(file))))].toSorted();

/** Here the folders use files at the top, and other files at the top use the folders. */
const ONLY_FOLDERS = ['console', 'contract', 'domain', 'projections'];

test.each(PARENTS)('no circle of folders is in src/%s', (parent) => {
  const imports = new Map<string, string[]>();
  for (const each of IMPORTS) {
    const [from, to] = [partOf(parent, each.file), partOf(parent, each.path)];
    if (from === null || to === null || from === to) continue;
    imports.set(from, [...(imports.get(from) ?? []), to]);
  }
  expect(circleIn(imports)).toBeNull();
});

/** Returns the part of a folder that has this file: a folder or the file. Null if it has none. */
function partOf(parent: string, path: string): string | null {
  const [part = '', ...rest] = relative(parent, path).split('/');
  return part === '..' || (rest.length === 0 && ONLY_FOLDERS.includes(parent)) ? null : part;
}

test.each([
  ['src', 'The files at the top of `src`:'],
  ['src/projections', 'The files at the\ntop serve all of them:'],
])('docs/architecture.md lists the files at the top of %s', (place, heading) => {
  const [, table = ''] = readFileSync('docs/architecture.md', 'utf8').split(`${heading}\n\n`);
  const documented = [...(table.split('\n\n')[0] ?? '').matchAll(/^\| (`[^|]+`) \|/gm)]
    .flatMap(([, names = '']) => [...names.matchAll(/`([\w.-]+)`/g)])
    .map(([, name]) => name);
  expect(documented.toSorted()).toEqual(globSync('*.ts', { cwd: place }).toSorted());
});
