const FIRST = 8;
const MOST = 32;
const LEAST = 2;
/** Of all webhooks together. */
const ALL = 512;

/**
 * How many requests may be under way to each webhook: more while they arrive, half as many after each that
 * does not. So one that is dead or slow soon has two places, and takes none from the others.
 */
export interface Lanes {
  /** What may be claimed now. */
  room(): { total: number; each: number; places: Map<string, number> };
  enter(webhookId: string): void;
  leave(webhookId: string, arrived: boolean): void;
}

export function createLanes(): Lanes {
  const lanes = new Map<string, { limit: number; underWay: number }>();
  let underWay = 0;

  function lane(webhookId: string) {
    const known = lanes.get(webhookId) ?? { limit: FIRST, underWay: 0 };
    lanes.set(webhookId, known);
    return known;
  }

  return {
    room() {
      const places = new Map<string, number>();
      for (const [webhookId, { limit, underWay }] of lanes) {
        // Half a lane at once, or nothing: so a busy one is claimed for in batches.
        const free = limit - underWay;
        places.set(webhookId, free >= limit / 2 ? free : 0);
      }
      return { total: ALL - underWay, each: FIRST, places };
    },
    enter(webhookId) {
      underWay++;
      lane(webhookId).underWay++;
    },
    leave(webhookId, arrived) {
      underWay--;
      const left = lane(webhookId);
      left.underWay--;
      left.limit = arrived ? Math.min(MOST, left.limit + 1) : Math.max(LEAST, Math.floor(left.limit / 2));
    },
  };
}
