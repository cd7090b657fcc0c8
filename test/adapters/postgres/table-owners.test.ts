import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../../..');
const textOf = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const sources = globSync('src/**/*.ts', { cwd: ROOT }).map((path) => ({
  path,
  text: textOf(path),
}));

/** Returns the files whose SQL matches, by the first group of the pattern. */
function usersOf(pattern: RegExp): Record<string, string[]> {
  const users: Record<string, string[]> = {};
  for (const { path, text } of sources) {
    const names = new Set([...text.matchAll(pattern)].map(([, name]) => name as string));
    for (const name of names) users[name] = [...(users[name] ?? []), path];
  }
  return users;
}

test('each table of the schema `work` has one owner, as docs/architecture.md says', () => {
  const documented = textOf('docs/architecture.md').split('| Table of `work` | Owner |')[1] ?? '';
  const owners: Record<string, string[]> = {};
  for (const [, tables, owner] of documented.matchAll(/^\| (`\w+`(?:, `\w+`)*) \| `([^`]+)` \|$/gm))
    for (const [, table] of (tables as string).matchAll(/`(\w+)`/g))
      owners[table as string] = [owner as string];
  // An owner that ends in a slash is a folder: its files share the table.
  const folders = Object.values(owners)
    .flat()
    .filter((owner) => owner.endsWith('/'));
  const ownerOf = (path: string) => folders.find((folder) => path.startsWith(folder)) ?? path;
  const users = usersOf(/\b(?:from|join|into|update|using|exists)\s+work\.(\w+)\b(?!\()/g);
  const found = Object.fromEntries(
    Object.entries(users).map(([table, paths]) => [table, [...new Set(paths.map(ownerOf))]]),
  );
  expect(found).toEqual(owners);
});

test('each SQL function of the schema `work` is called from one file', () => {
  const functions = globSync('src/adapters/postgres/functions/work.*.sql', { cwd: ROOT }).map(
    (path) => basename(path, '.sql').slice('work.'.length),
  );
  // Their names have an underscore, methods of an object `work` have none.
  const callers = usersOf(/\bwork\.(\w+_\w+)\(/g);
  expect(Object.keys(callers).toSorted()).toEqual(functions.toSorted());
  expect(Object.values(callers).filter((files) => files.length > 1)).toEqual([]);
});
