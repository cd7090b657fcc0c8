import type { KeyObject } from 'node:crypto';
import { readdir, readFile, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { replaceFile } from '../../adapters/durable-file.ts';
import { openStore } from '../../adapters/event-store/open-store.ts';
import type { EventStore } from '../../adapters/event-store/port.ts';
import { DomainError } from '../../domain/errors.ts';
import { SIGNING_KEYS } from '../../domain/events/streams.ts';
import type { Installation } from '../../installation.ts';
import { openSinks } from '../../processes/proof/open-sink.ts';
import type { Check, Fault } from '../../processes/verification/fault.ts';
import {
  type DamagedCheckpoint,
  type KeptCheckpoint,
  readCheckpoint,
} from '../../processes/verification/kept-checkpoints.ts';
import { createLoggedKeys, type LoggedKey } from '../../processes/verification/logged-keys.ts';
import { readState, writeState } from '../../processes/verification/saved-state.ts';
import { type Verdict, verifyLog } from '../../processes/verification/verify-log.ts';
import { EXIT } from '../program/exit-codes.ts';
import { note, print, printJson, visible } from '../program/output.ts';
import { createProgressBar } from '../program/progress.ts';
import { withInstallation } from '../program/session.ts';
import { failUntilVerdict, terminal } from '../program/terminal.ts';
import { readPublicKeys } from './public-keys.ts';

const SAVE_EVERY_MS = 15_000;
/** A signed note is far smaller; exports of the log are larger. */
const LARGEST_NOTE = 1_048_576;
/** Files that a message names. */
const MAX_NAMED = 5;

/** What a file or a folder of checkpoints has. */
interface KeptFiles {
  checkpoints: KeptCheckpoint[];
  damaged: DamagedCheckpoint[];
}

const NONE: KeptFiles = { checkpoints: [], damaged: [] };

/** What the reader gave. */
interface Given extends KeptFiles {
  keys: KeyObject[];
}

interface VerifyOptions {
  checkpoint?: string;
  key?: string[];
  resume?: string;
  json?: boolean;
}

export function addVerifyCommand(audit: Command): void {
  audit
    .command('verify')
    .description('check the whole log; exit code 1 if it finds a fault')
    .option(
      '--checkpoint <file or folder>',
      'checkpoints that you kept elsewhere, to compare the log with',
    )
    .option(
      '--key <file>',
      'public keys that you trust: all later keys of the log must follow from them; may be repeated',
      (file: string, files: string[] = []) => [...files, file],
    )
    .option('--resume <file>', 'save the progress in this file, and continue from there')
    .option('--json', 'JSON lines: the faults, then the result')
    .action(async (options: VerifyOptions) => {
      const { checkpoint, key = [] } = options;
      if (checkpoint === '') throw empty('--checkpoint');
      if (options.resume === '') throw empty('--resume');
      if (key.includes('')) throw empty('--key');
      const keys = (await Promise.all(key.map(readPublicKeys))).flat();
      await withInstallation(
        async (installation) => {
          const { config, sql, logId } = installation;
          const store = await openStore(config, sql, { keepsUnreadable: true });
          try {
            const signers = await withFollowing(store, logId, keys);
            const kept =
              checkpoint === undefined ? NONE : await readCheckpoints(checkpoint, signers, logId);
            await verify({ ...installation, store }, { ...kept, keys }, options);
          } finally {
            await store.close();
          }
        },
        { opensChangedLog: true, runsLong: true },
      );
    });
}

/** An unset variable of a script gives an empty value. The check would then pass for ever. */
function empty(option: string): DomainError {
  return new DomainError('validation_failed', `${option} is empty: give a file or a folder`);
}

/** Returns these keys, and the keys of the log that follow from them. */
async function withFollowing(
  store: EventStore,
  logId: string,
  given: KeyObject[],
): Promise<KeyObject[]> {
  const keys = createLoggedKeys(logId, given);
  for (const [leaf, event] of (await store.read(SIGNING_KEYS)).entries()) keys.add(event, leaf);
  const following = keys.following().filter((key) => !given.some((one) => one.equals(key)));
  return [...given, ...following];
}

async function verify(
  installation: Installation,
  { checkpoints, damaged, keys }: Given,
  { resume, json }: VerifyOptions,
): Promise<void> {
  failUntilVerdict();
  const { store, patient, logId, otherVersions, vault, commands, config } = installation;
  const sinks = openSinks({ vault, endpoints: commands.endpoints }, config.checkpointSinks);
  const run = { logId, checkpoints, damaged, keys };
  const saved = resume === undefined ? null : await unlessGone(readFile(resume, 'utf8'));
  const bar = json ? null : createProgressBar();
  const started = performance.now();
  let saveAt = performance.now() + SAVE_EVERY_MS;
  const verdict = await verifyLog(
    {
      ...{ store, sql: patient, logId },
      comparesApi: !otherVersions.has('transfers'),
      comparesTree: !otherVersions.has('proof'),
    },
    {
      ...{ checkpoints, damaged, keys, sinks },
      resume: saved === null ? null : readState(saved, run),
      async report(fault) {
        bar?.clear();
        // A name in a log that was changed may be anything.
        await (json ? printJson(fault) : print(visible(inWords(fault))));
      },
      onProgress(events, share) {
        const seconds = Math.max((performance.now() - started) / 1_000, 0.001);
        bar?.show(share, `${events} events  ${Math.round(events / seconds)} events/s`);
      },
      async save(state) {
        if (resume === undefined || performance.now() < saveAt) return;
        await replaceFile(resume, writeState(state(), run));
        saveAt = performance.now() + SAVE_EVERY_MS;
      },
    },
  ).finally(() => bar?.clear());
  if (resume !== undefined) await unlink(resume).catch(() => undefined);
  if (verdict.faults === 0) terminal().exitCode = EXIT.done;
  if (json) return printJson(result(verdict, checkpoints, keys));
  await print(summary(verdict, checkpoints, keys));
  if (verdict.retained > 0)
    note(
      `${verdict.retained} more events left the log by retention: ` +
        '`waybill audit list --type log.retention_recorded` names the exports that have them',
    );
  if (!verdict.comparedApi)
    note(
      otherVersions.has('transfers')
        ? 'The transfers were not compared with the API, because their tables are of another version'
        : 'Not all transfers were compared with the API, because their tables are behind the log. ' +
            'Run it again while the service runs',
    );
  const said = aboutKeys(verdict.keys, keys.length > 0, checkpoints.length > 0);
  if (said !== null) note(said);
}

/** Returns what the verification does not prove about the keys of the log; null for none. */
function aboutKeys(
  keys: LoggedKey[],
  wereGiven: boolean,
  comparedCheckpoints: boolean,
): string | null {
  if (wereGiven) {
    const earlier = keys.findIndex(({ follows }) => follows);
    if (earlier < 1) return null;
    const ids = keys.slice(0, earlier).map(({ keyId }) => keyId);
    return `Not proved: keys before the first one that you gave (${ids.join(', ')})`;
  }
  const notes = comparedCheckpoints ? ['The signatures of the checkpoints were not checked.'] : [];
  if (keys.length > 0)
    notes.push(
      'Not proved: that the keys of the log are genuine. --key takes a public key that you kept.',
    );
  const unsigned = keys.filter(({ isSigned }) => isSigned === false).map(({ keyId }) => keyId);
  if (unsigned.length > 0)
    notes.push(
      `The key before it did not sign ${unsigned.join(', ')}: it was lost, or the log was changed.`,
    );
  return notes.length === 0 ? null : notes.join('\n');
}

/** What the faults of these checks are in, and those of the others are in the log. */
const PLACES: Partial<Record<Check, string>> = { code: 'the database', sink: 'the checkpoints' };

function inWords({ check, stream, revision, event_id, problem }: Fault): string {
  if (stream === null) return `${PLACES[check] ?? 'the log'}: ${problem}`;
  const place = revision === null ? stream : `${stream} revision ${revision}`;
  return `${place} (${event_id}): ${problem}`;
}

function result(
  { events, retained, streams, faults, agreed, signedInLog, comparedApi, keys }: Verdict,
  checkpoints: unknown[],
  given: unknown[],
) {
  return {
    events,
    retained,
    streams,
    broken: faults,
    compared_with_api: comparedApi,
    compared_with_keys: given.length > 0,
    keys: keys.map(({ keyId, isSigned, follows }) => ({
      key_id: keyId,
      signed_by_previous: isSigned,
      proved: follows,
    })),
    signed_in_log: signedInLog,
    checkpoints: checkpoints.length,
    agrees_with: agreed && {
      source: agreed.source,
      size: agreed.size,
      root_hash: Buffer.from(agreed.root).toString('hex'),
    },
  };
}

function summary(
  { events, streams, faults, agreed, signedInLog }: Verdict,
  checkpoints: KeptCheckpoint[],
  given: unknown[],
): string {
  const counted = `${events} events in ${streams} streams: `;
  if (faults > 0)
    return (
      `${counted}${faults} ${faults === 1 ? 'fault' : 'faults'}\n` +
      'Keep the log and the tables as they are. Do not rebuild projections'
    );
  if (agreed === null) {
    const own = signedInLog === null ? '' : `, and its checkpoints sign the first ${signedInLog}`;
    const unproved =
      signedInLog === null || given.length === 0
        ? 'the log was rewritten'
        : 'later ones were changed or removed';
    return (
      `${counted}consistent in itself${own}\n` +
      `Only a checkpoint or an export that was kept elsewhere shows whether ${unproved}`
    );
  }
  const signed =
    checkpoints.length === 1 ? 'the checkpoint' : `all ${checkpoints.length} checkpoints`;
  return `${counted}consistent in itself, and the first ${agreed.size} events are those of ${signed}`;
}

/** Reads one checkpoint, or all of a folder. Leaves out its other files, and says so. */
async function readCheckpoints(path: string, keys: KeyObject[], logId: string): Promise<KeptFiles> {
  const isFolder = (await stat(path)).isDirectory();
  const files = isFolder ? (await readdir(path, { recursive: true })).sort() : [''];
  const checkpoints: KeptCheckpoint[] = [];
  const damaged: DamagedCheckpoint[] = [];
  const others: string[] = [];
  for (const name of files) {
    const file = join(path, name);
    const info = await unlessGone(stat(file));
    if (info?.isDirectory()) continue;
    // The text of a larger file is no note.
    const isSmall = info?.isFile() && info.size <= LARGEST_NOTE;
    const text = isSmall ? await unlessGone(readFile(file, 'utf8')) : '';
    const found = text !== null && readCheckpoint(file, text, keys, logId);
    if (!found) others.push(file);
    else if ('problem' in found) damaged.push(found);
    else checkpoints.push(found);
  }
  if (checkpoints.length === 0) throw hasNone(path, damaged);
  // One of them may be a checkpoint that was damaged.
  const named = others.slice(0, MAX_NAMED).join(', ');
  if (named) note(`Skipped files that are no checkpoints (${others.length}): ${named}`);
  return { checkpoints: checkpoints.sort((a, b) => a.size - b.size), damaged };
}

function hasNone(path: string, [first]: DamagedCheckpoint[]): DomainError {
  return new DomainError(
    'validation_failed',
    first
      ? `${first.source}: ${first.problem}`
      : `${path} has no checkpoint (a signed note, as \`waybill log checkpoint\` prints it)`,
  );
}

/** Returns null if there is no such file, or none any more: a service may write into the folder. */
async function unlessGone<T>(asked: Promise<T>): Promise<T | null> {
  return asked.catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
}
