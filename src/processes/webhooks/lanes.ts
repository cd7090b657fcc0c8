const FIRST = 8;
const MOST = 32;
const LEAST = 2;
/** Claimed ahead for each request that may be under way, where they end soon: what waits takes room from all others. */
const AHEAD = 4;
const SOON_MS = 250;
/** Claims of all webhooks that answer, and of all others: however many of those hang, they leave room for the first. */
const TRUSTED = 1_024;
const DOUBTED = 512;
/** A webhook that lets requests wait, and has answered none for so long, is one of the others. */
const SILENT_MS = 1_000;

/** What may be claimed now. */
export interface Room {
  /** For webhooks that answer, together, and for new and silent ones and those whose last attempt has failed. */
  trusted: number;
  doubted: number;
  /** For one webhook that is not named in `places`; it is doubted. */
  each: number;
  places: ReadonlyMap<string, { free: number; trusted: boolean }>;
}

/**
 * How many requests may be under way to each webhook: more while they arrive, half as many after each that
 * does not. So one that is dead or slow soon has two places, and takes none from the others. Work that is
 * claimed beyond that waits in its lane, and leaves it unsent when something does not arrive.
 */
export interface Lanes<Work> {
  room(): Room;
  /** Has it begun as soon as there is a place; `begin` says how it ended. */
  enter(webhookId: string, work: Work): void;
  /** All that is not under way leaves, of every lane. */
  empty(): Work[];
}

interface Lane<Work> {
  limit: number;
  underWay: number;
  waiting: Work[];
  /** The last one arrived, and whether soon. */
  arrived: boolean;
  quick: boolean;
  /** When one ended last, or the first of those under way began. */
  heardAt: number;
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

  function lane(webhookId: string): Lane<Work> {
    const known = lanes.get(webhookId) ?? { limit: FIRST, underWay: 0, waiting: [], arrived: false, quick: false, heardAt: 0 };
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
    const began = performance.now();
    if (of.underWay++ === 0) of.heardAt = began;
    of.arrived = await begin(work);
    of.underWay--;
    of.heardAt = performance.now();
    of.limit = of.arrived ? Math.min(MOST, of.limit + 1) : Math.max(LEAST, Math.floor(of.limit / 2));
    of.quick = of.arrived && of.heardAt - began < SOON_MS;
    if (!of.arrived) giveBack(of.waiting.splice(0));
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

  return {
    room() {
      const silentSince = performance.now() - SILENT_MS;
      const room = { trusted: TRUSTED, doubted: DOUBTED };
      const places = new Map<string, { free: number; trusted: boolean }>();
      for (const [webhookId, of] of lanes) {
        const trusted = of.arrived && (of.underWay === 0 || of.heardAt > silentSince);
        room[trusted ? 'trusted' : 'doubted'] -= of.underWay + of.waiting.length;
        places.set(webhookId, { free: placesIn(of), trusted });
      }
      return { trusted: Math.max(0, room.trusted), doubted: Math.max(0, room.doubted), each: FIRST, places };
    },
    enter(webhookId, work) {
      const of = lane(webhookId);
      of.waiting.push(work);
      advance(of);
    },
    empty: () => [...lanes.values()].flatMap(({ waiting }) => waiting.splice(0)),
  };
}
