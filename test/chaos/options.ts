import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { FAULT_GROUPS } from './plan.ts';

export interface ChaosOptions {
  minutes: number;
  /** Faults and load follow from it. */
  seed: number;
  engine: 'postgres' | 'eventstoredb';
  /** Transfers a second. */
  rate: number;
  /** Groups of faults: those of the plan whose names begin with one of these. */
  faults: string[];
  /** The evidence folder. */
  out: string;
  /** Prints the fault plan and ends. */
  plan: boolean;
}

export const USAGE =
  'usage: npm run chaos -- [--minutes 10] [--seed N] [--engine postgres|eventstoredb] [--rate 6]' +
  ' [--faults GROUP,...] [--out FOLDER] [--plan]';

/** Parses the command line. Throws TypeError for an unknown option or a wrong value. */
export function parseOptions(
  args: string[],
  environment: NodeJS.ProcessEnv = process.env,
): ChaosOptions {
  const { values } = parseArgs({
    args,
    options: {
      minutes: { type: 'string', default: '10' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      engine: { type: 'string', default: environment.EVENTSTORE_URL ? 'eventstoredb' : 'postgres' },
      rate: { type: 'string', default: '6' },
      faults: { type: 'string', default: FAULT_GROUPS.join(',') },
      out: { type: 'string' },
      plan: { type: 'boolean', default: false },
    },
  });
  const [minutes, seed, rate] = [Number(values.minutes), Number(values.seed), Number(values.rate)];
  if (!(minutes > 0 && minutes <= 24 * 60))
    throw new TypeError(`--minutes is ${values.minutes}, but must be above 0 and at most 1440`);
  if (!Number.isSafeInteger(seed) || seed < 0)
    throw new TypeError(`--seed is ${values.seed}, but must be a whole number`);
  if (!(rate > 0 && rate <= 100))
    throw new TypeError(`--rate is ${values.rate}, but must be above 0 and at most 100`);
  const faults = values.faults.split(',');
  const unknown = faults.find((group) => !FAULT_GROUPS.includes(group));
  if (unknown !== undefined)
    throw new TypeError(`--faults has ${unknown}, but knows only ${FAULT_GROUPS.join(', ')}`);
  const { engine } = values;
  if (engine !== 'postgres' && engine !== 'eventstoredb')
    throw new TypeError(`--engine is ${engine}, but must be postgres or eventstoredb`);
  if (engine === 'eventstoredb' && !environment.EVENTSTORE_URL)
    throw new TypeError('--engine eventstoredb needs EVENTSTORE_URL');
  const stamp = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, '');
  const out = values.out ?? join('dist', 'chaos', `${stamp}-seed-${seed}`);
  return { minutes, seed, engine, rate, faults, out, plan: values.plan };
}
