import { parseArgs } from 'node:util';

export interface Options {
  /** Measured rounds; figures are their medians. One more round before them warms up and is thrown away. */
  runs: number;
  /** Factor on the sizes and counts of files, for a quick look. */
  scale: number;
  /** How long each load runs. */
  seconds: number;
  /** Events in the log that is read and folded. */
  events: number;
  /** Added round trips in milliseconds. */
  delays: number[];
  /** Parts of the bench to run; all of them where empty. */
  only: string[];
  /** The servers give their users a shell too, so that a peer can have files hashed there. */
  shell: boolean;
  /** Roles of the service that the HTTP bench asks. */
  roles: string;
  /** Record where our process spends its time, and every statement that Postgres runs. */
  profile: boolean;
}

/** Throws TypeError for an option that there isn't. */
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
  };
  const wrong = [options.runs, options.scale, options.seconds, options.events].some((value) => !(value > 0));
  if (wrong || options.delays.some((delay) => !(delay >= 0)))
    throw new TypeError('runs, scale, seconds, events and delays are positive numbers');
  return { names: positionals, options };
}
