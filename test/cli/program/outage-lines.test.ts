import { setImmediate } from 'node:timers/promises';
import pino, { type Logger } from 'pino';
import { expect, test } from 'vitest';
import { EventStoreUnavailable } from '../../../src/adapters/event-store/port.ts';
import { EmbeddedPostgresError } from '../../../src/adapters/postgres/embedded/error.ts';
import { leaveOutRepeats } from '../../../src/cli/program/outage-lines.ts';

const NEVER = 60_000;
const STILL = 'calls to a store still fail; lines that repeat are left out';
const AGAIN = 'calls to the stores succeed again';
const REFUSED = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });

interface Line {
  msg: string;
  repeated_lines?: number;
}

function createLog(limits: { overAfterMs: number; countEveryMs: number }) {
  const lines: Line[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line) as Line) };
  const logger: Logger = pino(
    { hooks: { logMethod: leaveOutRepeats(() => logger, limits) } },
    destination,
  );
  return { logger, lines, messages: () => lines.map(({ msg }) => msg) };
}

test('a line that repeats while a store is away is written once', () => {
  const { logger, messages } = createLog({ overAfterMs: NEVER, countEveryMs: NEVER });
  for (const err of [REFUSED, new EventStoreUnavailable('no leader')])
    for (let n = 0; n < 3; n++) {
      logger.error({ err }, 'claims');
      logger.child({ reqId: 1 }).warn({ err }, 'leases');
    }
  const full = new EmbeddedPostgresError('the disk is full');
  for (let n = 0; n < 3; n++) logger.error({ err: full }, 'does not start');
  expect(messages()).toEqual(['claims', 'leases', 'claims', 'leases', 'does not start']);
});

test('lines of another subject, of another error and without an error are written', () => {
  const { logger, messages } = createLog({ overAfterMs: NEVER, countEveryMs: NEVER });
  logger.error({ err: REFUSED, transfer_id: 'trf_1' }, 'a transfer');
  logger.error({ err: REFUSED, transfer_id: 'trf_2' }, 'a transfer');
  for (const position of [1n, 2n, 2n]) logger.error({ err: REFUSED, position }, 'an event');
  const fault = new Error('not of a store');
  for (let n = 0; n < 2; n++) {
    logger.error({ err: fault }, 'a fault');
    logger.error({ reason: 'connect ECONNREFUSED' }, 'a request failed');
    logger.info('words alone');
  }
  const twice = ['a fault', 'a request failed', 'words alone'];
  const once = ['a transfer', 'a transfer', 'an event', 'an event'];
  expect(messages()).toEqual([...once, ...twice, ...twice]);
});

test('a long outage counts the lines that it left out', async () => {
  const { logger, lines, messages } = createLog({ overAfterMs: NEVER, countEveryMs: 30 });
  let logged = 0;
  while (!messages().includes(STILL)) {
    logger.error({ err: REFUSED }, 'claims');
    logged++;
    await setImmediate();
  }
  expect(messages()).toEqual(['claims', STILL]);
  expect(lines[1]?.repeated_lines).toBe(logged - 1);
});

test('the end of an outage says so, and the next one begins with its lines', async () => {
  const { logger, lines, messages } = createLog({ overAfterMs: 30, countEveryMs: NEVER });
  for (let n = 0; n < 3; n++) logger.error({ err: REFUSED }, 'claims');
  await expect.poll(messages).toEqual(['claims', AGAIN]);
  expect(lines[1]?.repeated_lines).toBe(2);
  logger.error({ err: REFUSED }, 'claims');
  expect(messages()).toEqual(['claims', AGAIN, 'claims']);
});
