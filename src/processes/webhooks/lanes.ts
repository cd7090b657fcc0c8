const FIRST = 8;
const MOST = 32;
const LEAST = 2;
/** Claimed ahead for each request that may be under way, where they end soon: what waits takes room from all others. */
const AHEAD = 4;
const SOON_MS = 250;
/** Claims of all webhooks together. */
const ALL = 1_024;

/**
 * How many requests may be under way to each webhook: more while they arrive, half as many after each that
 * does not. So one that is dead or slow soon has two places, and takes none from the others. Work that is
 * claimed beyond that waits in its lane, and leaves it unsent when something does not arrive.
 */
export interface Lanes<Work> {
  /** What may be claimed now. */
  room(): { total: number; each: number; places: Map<string, number> };
  /** Has it begun as soon as there is a place; `begin` says how it ended. */
  enter(webhookId: string, work: Work): void;
  /** All that is not under way leaves, of every lane. */
  empty(): Work[];
}

interface Lane<Work> {
  limit: number;
  underWay: number;
  waiting: Work[];
  /** The last one arrived, and soon. */
  quick: boolean;
}

export interface LaneWork<Work> {
  /** True where it arrived. Does not reject. */
  begin(work: Work): Promise<boolean>;
  /** These were not begun: somebody else may take them. */
  giveBack(works: Work[]): void;
  /** There is room for more. */
  onRoom(): void;
}

export function createLanes<Work>({ begin, giveBack, onRoom }: LaneWork<Work>): Lanes<Work> {
  const lanes = new Map<string, Lane<Work>>();
  let inside = 0;

  function lane(webhookId: string): Lane<Work> {
    const known = lanes.get(webhookId) ?? { limit: FIRST, underWay: 0, waiting: [], quick: false };
    lanes.set(webhookId, known);
    return known;
  }

  /** Half of them at once, or none: so claims are made in batches. */
  function placesIn({ limit, underWay, waiting, quick }: Lane<Work>): number {
    const most = quick ? limit * AHEAD : limit;
    const free = most - underWay - waiting.length;
    return free >= most / 2 ? free : 0;
  }

  async function run(of: Lane<Work>, work: Work): Promise<void> {
    of.underWay++;
    const began = performance.now();
    const arrived = await begin(work);
    of.underWay--;
    inside--;
    of.limit = arrived ? Math.min(MOST, of.limit + 1) : Math.max(LEAST, Math.floor(of.limit / 2));
    of.quick = arrived && performance.now() - began < SOON_MS;
    if (!arrived) giveBack(leave(of));
    advance(of);
    if (placesIn(of) > 0) onRoom();
  }

  function advance(of: Lane<Work>): void {
    while (of.underWay < of.limit) {
      const next = of.waiting.shift();
      if (next === undefined) return;
      void run(of, next);
    }
  }

  function leave(of: Lane<Work>): Work[] {
    const left = of.waiting.splice(0);
    inside -= left.length;
    return left;
  }

  return {
    room: () => ({
      total: ALL - inside,
      each: FIRST,
      places: new Map([...lanes].map(([webhookId, of]) => [webhookId, placesIn(of)])),
    }),
    enter(webhookId, work) {
      inside++;
      const of = lane(webhookId);
      of.waiting.push(work);
      advance(of);
    },
    empty: () => [...lanes.values()].flatMap(leave),
  };
}
