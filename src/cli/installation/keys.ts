import { type Command, Option } from 'commander';
import { createKey, revokeKey } from '../../commands/keys.ts';
import { keyRequest, toKey } from '../../contract/keys.ts';
import { DEFAULT_ACCOUNT } from '../../domain/account.ts';
import { DomainError } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import { LIFETIME } from '../../domain/key.ts';
import { ROLES } from '../../domain/role.ts';
import { SCOPES } from '../../domain/scope.ts';
import { listKeys, type ShownKey } from '../../projections/catalog/queries.ts';
import { type Columns, print, printFacts, printJson, printTable } from '../program/output.ts';
import { commaSeparated, parseRequest } from '../program/parse.ts';
import { fromCatalog } from '../program/read-model.ts';
import { operator, withInstallation } from '../program/session.ts';

const COLUMNS: Columns<ShownKey> = {
  ID: ({ key_id }) => key_id,
  NAME: ({ name }) => name,
  ACCOUNT: ({ account_id }) => account_id,
  ACCESS: allowed,
  KEY: ({ last_four }) => `...${last_four}`,
  STATE: stateOf,
};

interface CreateOptions {
  name: string;
  scopes?: string[];
  role?: string;
  account: string;
  expiresIn: string;
  json?: boolean;
}

export function addKeyCommands(program: Command): void {
  const keys = program.command('keys').description('create, list and revoke API keys');

  keys
    .command('create')
    .description('create a key and show it once')
    .requiredOption('--name <name>', 'what the key is for')
    .option('--scopes <a,b>', `what it allows: ${SCOPES.join(', ')}`, commaSeparated)
    .addOption(
      new Option('--role <role>', `a named set of scopes instead: ${ROLES.join(', ')}`).conflicts(
        'scopes',
      ),
    )
    .option('--account <account>', 'the account of the key', DEFAULT_ACCOUNT)
    .option(
      '--expires-in <duration>',
      `at most ${LIFETIME.longest}, or \`never\` if WAYBILL_ALLOW_UNLIMITED_KEYS is true`,
      LIFETIME.default,
    )
    .option('--json', 'one JSON document')
    .action(async (options: CreateOptions, command: Command) => {
      const { name, scopes, role, account, expiresIn, json } = options;
      if (scopes === undefined && role === undefined)
        command.error("error: one of the options '--scopes' and '--role' is required");
      const request = parseRequest(
        keyRequest,
        { name, scopes, role, account, expires_in: expiresIn },
        'The key',
      );
      const created = await withInstallation(
        ({ commands, config }) =>
          createKey(commands, request, operator(), { allowNever: config.allowUnlimitedKeys }),
        { begins: true },
      );
      const { id, key, state } = created;
      const { scopes: given, expires_at } = state;
      if (json) {
        const held = { scopes: given, role: state.role ?? null };
        return printJson({ id, key, name, account, ...held, expires_at });
      }
      await printFacts({
        id,
        key,
        name,
        account,
        access: allowed(state),
        expires: expires_at ?? 'never',
      });
      await print('Store the key now: it is not shown again.');
    });

  keys
    .command('list')
    .description('list all keys, newest first')
    .option('--json', 'one JSON line a key')
    .action(async ({ json }: { json?: boolean }) => {
      const all = await withInstallation((installation) => fromCatalog(installation, listKeys));
      if (json) for (const key of all) await printJson(toKey(key));
      else
        await printTable(COLUMNS, all, 'There are no keys: create one with `waybill keys create`');
    });

  keys
    .command('revoke')
    .description('revoke a key; when this returns, no process accepts it')
    .argument('<key-id>', 'as `keys list` shows it')
    .option('--json', 'one JSON document')
    .action(async (id: string, { json }: { json?: boolean }) => {
      if (!isId('key', id))
        throw new DomainError(
          'not_found',
          `There is no key ${id}: \`waybill keys list\` shows the ids`,
        );
      await withInstallation(({ commands }) => revokeKey(commands, id, operator()));
      if (json) await printJson({ id, status: 'revoked' });
      else await print(`${id} is revoked`);
    });
}

function allowed({ scopes, role }: Pick<ShownKey, 'scopes' | 'role'>): string {
  return role ?? scopes.join(',');
}

function stateOf({ revoked_at, expires_at }: ShownKey): string {
  if (revoked_at !== null) return `revoked ${revoked_at}`;
  if (expires_at === null) return 'never expires';
  return `${Date.parse(expires_at) <= Date.now() ? 'expired' : 'expires'} ${expires_at}`;
}
