/*
 * Sends the last checkpoint to each sink, in one process of the installation. A sink that fails is
 * retried, with longer pauses, up to five minutes. Nothing waits for a sink.
 *
 * Before its first checkpoint, a sink shows the largest that it has. If the log does not have it,
 * an older copy of the log was restored, or the log was changed. Tables that were restored together
 * with the log cannot show that. The sink then gets nothing more, so that it keeps one history. The
 * sink is asked again if the log loses the checkpoint that it took: a copy may be restored, or an
 * older standby take over, while this process runs.
 *
 * A sink that lost the last checkpoint that it took gets no further one either: that would hide the
 * loss. The table of the sinks says what it took, also after a restart.
 */
import type { Logger } from 'pino';
import { type CheckpointSink, SinkRefuses } from '../../adapters/checkpoint-sinks/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Locks } from '../../adapters/postgres/locks.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import { pause } from '../../concurrency/pause.ts';
import { headOfNote, originOf } from '../../domain/proof/checkpoint.ts';
import { sameHash } from '../../domain/proof/hash.ts';
import { proveConsistency } from '../../projections/proof/consistency.ts';
import {
  latestCheckpoint,
  measureTree,
  type SignedCheckpoint,
} from '../../projections/proof/queries.ts';
import { rootAt } from '../../projections/proof/tiles.ts';
import { LIVE_SCHEMA } from '../../projections/read-models.ts';
import { inOneProcess } from '../in-one-process.ts';
import { forgetOthers, saveFailed, saveTaken, sinkStates } from './sink-table.ts';

const LOOK_MS = 5_000;
const LONGEST_PAUSE_MS = 300_000;

/** Whether a sink keeps the last checkpoint, for readiness. */
export interface SinkStatus {
  state: 'keeping';
  /** Number of events that the last checkpoint covers that it has taken. */
  size: number | null;
  /** `refuses`: it has a checkpoint that this log does not have. */
  failing: 'no' | 'retries' | 'refuses';
}

/** A sink and its URL in the settings. */
export interface NamedSink {
  url: string;
  sink: CheckpointSink;
}

export interface SinkDeps {
  sql: Sql;
  locks: Locks;
  logger: Logger;
  logId: string;
  commands: Pick<CommandDeps, 'catchUp'>;
}

/**
 * Sends the last checkpoint to each sink until the signal aborts, or stands by for the process that
 * does.
 */
export async function runSinks(
  deps: SinkDeps,
  sinks: NamedSink[],
  signal: AbortSignal,
  report: (index: number, status: SinkStatus) => void,
  lookMs = LOOK_MS,
): Promise<void> {
  if (sinks.length === 0) return;
  await inOneProcess(deps.locks, 'checkpoint sinks', signal, async (stop) => {
    const urls = sinks.map(({ url }) => url);
    await forgetOthers(deps.sql, urls).catch(() => undefined);
    const feeds = sinks.map(
      (sink, i): Feed => ({
        ...sink,
        number: i + 1,
        report: (status) => report(i, status),
        isCompared: false,
        taken: null,
        size: null,
        failures: 0,
      }),
    );
    await Promise.all(feeds.map((feed) => keepFed(deps, feed, stop, lookMs)));
  });
}

/** What a process knows of a sink, and where it reports that. */
interface Feed extends NamedSink {
  /** Its place in the settings, from 1. The log has no URL: that may hold a secret. */
  number: number;
  report(status: SinkStatus): void;
  /** True once its largest checkpoint was found in the log, or it took one. */
  isCompared: boolean;
  /** The last checkpoint that it has taken, until the log loses that. */
  taken: SignedCheckpoint | null;
  /** Number of events that the last checkpoint covers that it has taken. */
  size: number | null;
  /** Looks in a row that have failed. */
  failures: number;
}

/** Sends the last checkpoint to one sink, until the signal aborts. */
async function keepFed(
  deps: SinkDeps,
  feed: Feed,
  stop: AbortSignal,
  lookMs: number,
): Promise<void> {
  while (!stop.aborted) {
    let pauseMs = lookMs;
    try {
      await sendLatest(deps, feed);
    } catch (error) {
      if (stop.aborted) return;
      pauseMs = Math.min(lookMs * 2 ** feed.failures, LONGEST_PAUSE_MS);
      feed.failures += 1;
      await noteFailure(deps, feed, error as Error, pauseMs);
    }
    await pause(pauseMs, stop);
  }
}

/** Sends the last checkpoint to a sink that does not have it. Throws why it is not taken. */
async function sendLatest(deps: SinkDeps, feed: Feed): Promise<void> {
  const { sql, logger } = deps;
  const { url, sink, number, report } = feed;
  const latest = await latestCheckpoint(sql).catch(() => undefined);
  if (latest) feed.size ??= (await sinkStates(sql, [url]))[0]?.state?.size ?? null;
  if (latest !== undefined && feed.taken !== null && hasLost(feed.taken, latest)) {
    feed.isCompared = false;
    feed.taken = null;
  }
  const comparison = feed.isCompared ? 'done' : await compareNewest(deps, sink);
  feed.isCompared = comparison === 'done';
  if (!latest || comparison === 'later' || latest.revision <= (feed.taken?.revision ?? -1)) return;
  if (feed.size !== null && (await hasLostCheckpoint(sink, feed.size)))
    throw new Error(`it ${lossOf(feed.size)}`);
  await sink.keep(latest, (from) => proveConsistency(sql, from, latest));
  // A sink that takes checkpoints may be unable to list them: half a million a year.
  if (!feed.isCompared)
    logger.warn({ sink: number }, 'a sink does not show what it has, and takes checkpoints');
  const { size } = latest;
  Object.assign(feed, { isCompared: true, taken: latest, size, failures: 0 });
  report({ state: 'keeping', size, failing: 'no' });
  await saveTaken(sql, url, size).catch(() => undefined);
}

/** Returns whether a sink lacks a checkpoint that it took. False also if the sink does not say. */
export async function hasLostCheckpoint(sink: CheckpointSink, size: number): Promise<boolean> {
  return !(await sink.has(size).catch(() => true));
}

/** Returns what is wrong with a sink that lost a checkpoint. */
export function lossOf(size: number): string {
  return (
    `lacks the checkpoint over ${size} events, which it took: the file was removed, or another ` +
    'disk is in its place. Put the file or disk back, or set another place'
  );
}

/** Says that a sink did not take a checkpoint, and when it is asked again. Never rejects. */
async function noteFailure(
  { sql, logger }: SinkDeps,
  { url, number, size, report }: Feed,
  error: Error,
  pauseMs: number,
): Promise<void> {
  const refuses = error instanceof SinkRefuses;
  if (refuses)
    logger.error(
      { sink: number, reason: error.message },
      'a sink has a checkpoint that this log does not have: an older copy of the log was ' +
        'restored, or the log was changed. The sink gets no more checkpoints. See "A restored ' +
        'older log" in docs/operators.md',
    );
  else
    logger.warn(
      { sink: number, reason: error.message },
      `a sink did not take a checkpoint; retrying in ${pauseMs / 1_000} s`,
    );
  report({ state: 'keeping', size, failing: refuses ? 'refuses' : 'retries' });
  await saveFailed(sql, url, { error: error.message, refuses, pauseMs }).catch(() => undefined);
}

/** Returns whether a log that ends with `latest` has lost a checkpoint that it had. */
function hasLost(known: SignedCheckpoint, latest: SignedCheckpoint | null): boolean {
  return (latest?.revision ?? -1) <= known.revision && latest?.note !== known.note;
}

type Comparison = 'done' | 'later' | 'unknown';

/**
 * Compares the largest checkpoint that a sink has with the log. Returns `later` if the tree does
 * not have the whole log yet, and `unknown` if the sink does not show the checkpoint. Throws
 * SinkRefuses if the log does not have the checkpoint.
 */
async function compareNewest(
  { sql, logId, commands }: SinkDeps,
  sink: CheckpointSink,
): Promise<Comparison> {
  if (!(await commands.catchUp('proof'))) return 'later';
  const note = await sink.newest().catch(() => undefined);
  if (note === undefined) return 'unknown';
  if (note === null) return 'done';
  const kept = headOfNote(note);
  if (kept === null) throw new SinkRefuses('its largest checkpoint is no signed note');
  if (kept.origin !== originOf(logId))
    throw new SinkRefuses(`it keeps checkpoints of ${kept.origin}, and this is ${originOf(logId)}`);
  const { size } = await measureTree(sql, 0);
  if (kept.size > size)
    throw new SinkRefuses(`it has a checkpoint over ${kept.size} events, and the log has ${size}`);
  if (!sameHash(await rootAt(sql, LIVE_SCHEMA, kept.size), kept.root))
    throw new SinkRefuses(
      `it has a checkpoint over ${kept.size} events, which are not the first of this log`,
    );
  return 'done';
}
