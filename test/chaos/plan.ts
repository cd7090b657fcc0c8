import { randomFrom } from './random.ts';

/** The processes of the installation and their roles. */
export const PROCESSES = {
  'api-1': ['api'],
  'api-2': ['api'],
  'mover-1': ['mover'],
  'mover-2': ['mover'],
  'mover-3': ['mover'],
  'webhooks-1': ['webhooks'],
  'webhooks-2': ['webhooks'],
  'projector-1': ['projector', 'monitor'],
  'projector-2': ['projector', 'monitor'],
} as const;
export type ProcessName = keyof typeof PROCESSES;
export const PROCESS_NAMES = Object.keys(PROCESSES) as ProcessName[];

/** The endpoints' names in the installation. */
export const PARTNERS = ['sftp', 'ftps', 's3', 'azure'] as const;
export type PartnerName = (typeof PARTNERS)[number];

export const RECEIVERS = ['receiver-1', 'receiver-2', 'receiver-3', 'receiver-4'] as const;
export type ReceiverName = (typeof RECEIVERS)[number];

const FAULTS = [
  'process.kill',
  'process.freeze',
  'process.restart',
  'postgres.restart',
  'postgres.kill',
  'postgres.freeze',
  'postgres.kill_backend',
  'postgres.terminate_backends',
  'postgres_network.cut',
  'postgres_network.slow',
  'postgres_network.silent',
  'postgres_network.refuse',
  'eventstore.restart',
  'eventstore.freeze',
  'eventstore.resign',
  'eventstore_network.cut',
  'eventstore_network.slow',
  'eventstore_network.silent',
  'eventstore_network.refuse',
  'partner.cut',
  'partner.slow',
  'partner.silent',
  'partner.refuse',
  'partner.restart',
  'receiver.fail',
  'receiver.hang',
  'disk.full',
] as const;
export type FaultName = (typeof FAULTS)[number];

export interface PlannedFault {
  atMs: number;
  /** From its injection until it is lifted; 0 for a momentary fault. */
  lastsMs: number;
  fault: FaultName;
  target: string;
}

/** Faults of one lane follow each other; those of different lanes overlap. */
interface Lane {
  name: string;
  /** Seconds between the starts of two faults, minimum and maximum. */
  every: [number, number];
  /** Duration in seconds, minimum and maximum. */
  lasts: Partial<Record<FaultName, [number, number]>>;
  targets: readonly string[];
}

const MOMENT: [number, number] = [0, 0];

/** The faults of the connections to a store. */
function onNetworkOf(store: 'postgres' | 'eventstore'): Lane['lasts'] {
  return {
    [`${store}_network.cut`]: MOMENT,
    [`${store}_network.slow`]: [5, 20],
    [`${store}_network.silent`]: [5, 30],
    [`${store}_network.refuse`]: [2, 15],
  };
}

const LANES: Lane[] = [
  {
    name: 'processes',
    every: [5, 11],
    lasts: { 'process.kill': [0.2, 8], 'process.freeze': [5, 45], 'process.restart': [0, 2] },
    targets: PROCESS_NAMES,
  },
  {
    name: 'postgres',
    every: [14, 26],
    lasts: {
      'postgres.restart': [0, 4],
      'postgres.kill': [0, 6],
      'postgres.freeze': [5, 20],
      'postgres.kill_backend': MOMENT,
      'postgres.terminate_backends': MOMENT,
    },
    targets: ['postgres'],
  },
  {
    name: 'postgres network',
    every: [9, 17],
    lasts: onNetworkOf('postgres'),
    targets: PROCESS_NAMES,
  },
  {
    name: 'event store',
    every: [25, 45],
    lasts: {
      'eventstore.restart': [0, 8],
      'eventstore.freeze': [5, 20],
      'eventstore.resign': MOMENT,
    },
    targets: ['eventstore'],
  },
  {
    name: 'event store network',
    every: [9, 17],
    lasts: onNetworkOf('eventstore'),
    targets: PROCESS_NAMES,
  },
  {
    name: 'partners',
    every: [5, 11],
    lasts: {
      'partner.cut': MOMENT,
      'partner.slow': [5, 20],
      'partner.silent': [5, 30],
      'partner.refuse': [2, 12],
      'partner.restart': [0, 5],
    },
    targets: PARTNERS,
  },
  {
    name: 'receivers',
    every: [12, 24],
    lasts: { 'receiver.fail': [5, 20], 'receiver.hang': [5, 20] },
    targets: RECEIVERS,
  },
  {
    name: 'disk',
    every: [20, 40],
    lasts: { 'disk.full': [4, 15] },
    targets: ['sftp-small'],
  },
];

/** The first fault starts after this time. */
const QUIET_MS = 4_000;

/** What a fault hits: the part of its name before the dot. */
export const FAULT_GROUPS = [...new Set(FAULTS.map((fault) => fault.split('.')[0] as string))];

/**
 * Returns the faults of a run, ordered by time. It depends only on seed, length and groups: faults
 * that this machine or engine cannot have are planned too, and skipped in the run. A longer run
 * starts like a shorter one.
 */
export function planFaults(
  seed: number,
  minutes: number,
  groups: string[] = FAULT_GROUPS,
): PlannedFault[] {
  return LANES.flatMap((lane) => planLane(seed, minutes, lane))
    .filter(({ fault }) => groups.includes(fault.split('.')[0] as string))
    .toSorted((a, b) => a.atMs - b.atMs);
}

function planLane(
  seed: number,
  minutes: number,
  { name, every, lasts, targets }: Lane,
): PlannedFault[] {
  const random = randomFrom(seed, `faults: ${name}`);
  const between = ([least, most]: [number, number]) =>
    Math.round((least + random.next() * (most - least)) * 1_000);
  const nextFault = random.bag(Object.entries(lasts) as [FaultName, [number, number]][]);
  const nextTarget = random.bag(targets);
  const planned: PlannedFault[] = [];
  // The first faults of the lanes do not coincide.
  let atMs = QUIET_MS + Math.round(random.next() * every[0] * 1_000);
  while (atMs < minutes * 60_000) {
    const [fault, span] = nextFault();
    planned.push({ atMs, lastsMs: between(span), fault, target: nextTarget() });
    atMs += between(every);
  }
  return planned;
}
