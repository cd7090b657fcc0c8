import type { Logger } from 'pino';
import { shortageOfFiles } from './adapters/own-shortage.ts';

const LOOK_MS = 2_000;
/** Health checks need a connection themselves, so most of them come when the shortage is over. */
const SHOWN_FOR_MS = 30_000;

/**
 * Watches whether this process can open files and connections. Nothing else would say that it
 * cannot: the system closes the connections of clients before the server sees them. Returns the
 * function that says what was lacking within the last 30 s; null for nothing.
 */
export function watchOpenFiles(
  { logger }: { logger: Logger },
  signal: AbortSignal,
  { lookMs = LOOK_MS, shownForMs = SHOWN_FOR_MS } = {},
): () => string | null {
  let lacking: string | null = null;
  let seen = { words: '', at: Number.NEGATIVE_INFINITY };

  function look(): void {
    const shortage = shortageOfFiles();
    if (shortage !== null) seen = { words: shortage, at: performance.now() };
    if (shortage !== null && lacking === null)
      logger.error({ reason: shortage }, 'this process can open no files and no connections');
    if (shortage === null && lacking !== null)
      logger.info('this process can open files and connections again');
    lacking = shortage;
  }

  const timer = setInterval(look, lookMs).unref();
  signal.addEventListener('abort', () => clearInterval(timer), { once: true });
  return () => (performance.now() - seen.at < shownForMs ? seen.words : null);
}
