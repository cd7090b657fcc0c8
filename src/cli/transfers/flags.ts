import { type Command, Option } from 'commander';
import type { AfterRequested } from '../../contract/transfers/after.ts';
import { METADATA_KEYS } from '../../contract/transfers/requests.ts';
import type { ProjectionName } from '../../domain/projection-name.ts';
import { TRANSFER_ERRORS } from '../../domain/transfers/errors.ts';
import { PRIORITIES, TRANSFER_STATUSES } from '../../domain/transfers/transfer.ts';
import { accountOption, keyValue } from '../program/parse.ts';

export const ACCOUNT_OPTION = accountOption('transfers');

/** The options that say what follows a completed transfer, as the user gives them. */
interface AfterOptions {
  sourceAfter?: string;
  moveTo?: string;
  writeMarker?: string;
}

/** Adds the options that say what follows a completed transfer. */
function withAfter(command: Command): Command {
  return command
    .addOption(
      new Option('--source-after <action>', 'what to do with the source after the copy').choices([
        'keep',
        'delete',
      ]),
    )
    .addOption(
      new Option(
        '--move-to <folder>',
        'after the copy, move the source to this folder below its own',
      ).conflicts('sourceAfter'),
    )
    .option(
      '--write-marker <end>',
      'after the copy, write an empty file NAME and this end, such as .done, beside the destination',
    );
}

/** Returns `after` of the API, as the options give it. */
function afterOf({ sourceAfter, moveTo, writeMarker }: AfterOptions) {
  const source = moveTo === undefined ? sourceAfter : { move_to: moveTo };
  return source === undefined && writeMarker === undefined
    ? undefined
    : { source, destination_marker: writeMarker };
}

/** Says what follows a completed transfer: the opposite of `afterOf`. */
export function afterInWords({ source, destination_marker }: AfterRequested): string {
  const action =
    typeof source === 'object' ? `move the source to ${source.move_to}` : `${source} the source`;
  return destination_marker === null ? action : `write ${destination_marker}, ${action}`;
}

/** The options of each command that creates transfers, also later, as the user gives them. */
export interface CopyOptions extends AfterOptions {
  priority: string;
  metadata?: Record<string, string>;
}

/** Adds the options of each command that creates transfers. */
export function withCopyOptions(command: Command): Command {
  return withAfter(command)
    .addOption(new Option('--priority <priority>').choices(PRIORITIES).default('normal'))
    .option(
      '--metadata <key=value>',
      `your own key and value; repeat it, at most ${METADATA_KEYS} times`,
      keyValue,
    );
}

/** Returns the fields of the API that these options give. */
export function copyFields(options: CopyOptions) {
  const { priority, metadata } = options;
  return { priority, metadata, after: afterOf(options) };
}

/** The options that all transfers of a batch can share, as the user gives them. */
export interface CommonCopyOptions extends CopyOptions {
  notifyOnComplete?: boolean;
  verify?: string;
  preserveMtime?: boolean;
}

/** Adds the options that all transfers of a batch can share. `ends` says what is notified. */
export function withCommonCopyOptions(command: Command, ends: string): Command {
  return withCopyOptions(command)
    .option('--notify-on-complete', `notify all webhooks of the account when ${ends} has ended`)
    .addOption(
      new Option('--verify <how>', 'read the destination again and compare its SHA-256').choices([
        'read_back',
      ]),
    )
    .option('--preserve-mtime', 'give the destination the modification time of the source');
}

/** Returns the fields of the API that these options give. */
export function commonCopyFields(options: CommonCopyOptions) {
  return {
    ...copyFields(options),
    notify_on_complete: options.notifyOnComplete ?? false,
    verify: options.verify,
    preserve_mtime: options.preserveMtime,
  };
}

export interface Common {
  account: string;
  json?: boolean | undefined;
}

/** The options that choose transfers, as the user gives them. */
export interface FilterOptions {
  q?: string;
  status?: string;
  errorCode?: string;
  errorEndpoint?: string;
  from?: string;
  to?: string;
  destination?: string;
  retryOf?: string;
  retried?: boolean;
  batch?: string;
}

/** Adds the options that choose transfers. */
export function withFilters(command: Command): Command {
  // Both set the same value, and Commander would take the last one.
  const either = ['retried', 'no-retried'];
  const given = new Set<string>();
  for (const name of either)
    command.on(`option:${name}`, () => {
      given.add(name);
      if (given.size === either.length)
        command.error("error: option '--retried' cannot be used with option '--no-retried'");
    });
  return command
    .option(
      '--q <words>',
      'words that are part of the file name, source, destination, metadata or id',
    )
    .addOption(new Option('--status <status>').choices(TRANSFER_STATUSES))
    .addOption(
      new Option('--error-code <code>', 'transfers that have failed with this error').choices(
        Object.keys(TRANSFER_ERRORS),
      ),
    )
    .option('--error-endpoint <endpoint-id>', 'transfers that have failed at this endpoint')
    .option('--from <time>', 'created at or after this date or time')
    .option('--to <time>', 'created at or before this date or time')
    .option('--destination <start>', 'destinations that start with this text')
    .option('--retry-of <transfer-id>', 'retries of this transfer')
    .option('--retried', 'transfers that were retried')
    .option('--no-retried', 'transfers that were not retried')
    .option('--batch <batch-id>', 'transfers of this batch');
}

/** Returns the filters of the API that the options give. */
export function filtersOf({
  q,
  status,
  errorCode,
  errorEndpoint,
  from,
  to,
  destination,
  retryOf,
  retried,
  batch,
}: FilterOptions) {
  return {
    q,
    status,
    error_code: errorCode,
    error_endpoint_id: errorEndpoint,
    from_date: from,
    to_date: to,
    destination,
    retry_of: retryOf,
    retried,
    batch_id: batch,
  };
}

/** Returns the read models that a filter of transfers needs. */
export function readModelsOf({ q }: { q?: string | undefined }): ProjectionName[] {
  return q === undefined ? ['transfers'] : ['transfers', 'transfer_search'];
}
