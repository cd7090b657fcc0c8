import { parseArgs } from 'node:util';

/** How small files are ordered: in batches, or by a request for each. */
const ORDERS = ['batch', 'single'] as const;

export interface Options {
  /** Measured rounds; figures are their medians. One more round before them warms up. */
  runs: number;
  /** Factor on sizes and counts, for a quick look. */
  scale: number;
  /** Length of each load. */
  seconds: number;
  /** Events in the log that is read and folded. */
  events: number;
  /** Added round trips in milliseconds. */
  delays: number[];
  /** Parts of the benchmark to run; empty for all. */
  only: string[];
  /** How many small files are ordered. */
  by: (typeof ORDERS)[number][];
  /** The SSH servers allow a shell too, so a peer can have files hashed there. */
  shell: boolean;
  /** Roles of the service in the HTTP benchmark. */
  roles: string;
  /** Profile the service's process, and log every statement of Postgres. */
  profile: boolean;
}

/** Parses the command line. Throws TypeError for an unknown option or a wrong value. */
export function parseOptions(args: string[]): { names: string[]; options: Options } {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      runs: { type: 'string', default: '5' },
      scale: { type: 'string', default: '1' },
      seconds: { type: 'string', default: '5' },
      events: { type: 'string', default: '1000000' },
      delays: { type: 'string', default: '0,50' },
      only: { type: 'string', default: '' },
      by: { type: 'string', default: ORDERS.join() },
      shell: { type: 'boolean', default: false },
      roles: { type: 'string', default: 'api,projector' },
      profile: { type: 'boolean', default: false },
    },
  });
  const options = {
    ...values,
    runs: Number(values.runs),
    scale: Number(values.scale),
    seconds: Number(values.seconds),
    events: Number(values.events),
    delays: values.delays.split(',').map(Number),
    only: values.only.split(',').filter(Boolean),
    by: ORDERS.filter((order) => values.by.split(',').includes(order)),
  };
  const wrong = [options.runs, options.scale, options.seconds, options.events].some(
    (value) => !(value > 0),
  );
  if (wrong || options.delays.some((delay) => !(delay >= 0)))
    throw new TypeError(
      '--runs, --scale, --seconds and --events must be above 0, and --delays 0 or above',
    );
  if (options.by.length === 0) throw new TypeError(`--by must name some of ${ORDERS.join(', ')}`);
  return { names: positionals, options };
}
