import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { createStartUp } from '../src/start-up.ts';

const config = { host: '127.0.0.1', port: 0, tls: null };

it('gives up a step that a silent store holds up, when the process must stop', async () => {
  const stop = new AbortController();
  const options = { answers: false, signal: stop.signal };
  const startUp = createStartUp(config, pino({ level: 'silent' }), options);
  const starting = startUp.attempt(() => new Promise<never>(() => undefined));
  stop.abort(new Error('stopped'));
  const late = sleep(8_000, 'late', { ref: false });
  await expect(Promise.race([starting, late])).rejects.toThrow('stopped');
  await startUp.close();
});
