/** Steps under way at all endpoints that answer together, and at one of them. */
const ANSWERING = 16;
const EACH = 4;
/** Unproven endpoints with steps under way. One that did not answer gets one step at a time. */
const UNPROVEN = 64;
/** Claims whose endpoint is not known yet. A look at their stream takes milliseconds. */
const UNREAD = 16;
/** An endpoint with steps under way that has ended none for this long counts as unproven. */
const SILENT_MS = 5_000;

/** The endpoint of a row that no worker has looked at. */
const UNKNOWN_ENDPOINT = '';

/** How many steps a worker may claim. */
export interface Room {
  /** At all endpoints that answer. */
  answering: number;
  /** At all others. */
  unproven: number;
  /** Rows whose endpoint is not known. */
  unread: number;
  /**
   * Endpoints with a step in the past: the one whose last step began first is first. Any other
   * endpoint is unproven, and has room for one step.
   */
  endpoints: { endpointId: string; free: number; answers: boolean }[];
}

/** The place of one claim at its endpoint. */
export interface StepTurn {
  /** Moves to another endpoint. Returns false, and stays, if that has no free place. */
  moveTo(endpointId: string): boolean;
  /** Records whether the server answered a step. */
  answered(answered: boolean): void;
  end(): void;
}

/**
 * The concurrency limits of the steps after transfers in one process. Endpoints that answer share
 * one number of places. Unproven endpoints share another: those that are new, did not answer the
 * last step, or are silent. So servers that never answer use up the second number only, however
 * many they are. Unproven endpoints take turns, and a single answer proves one. So a healthy
 * endpoint waits for a turn once, after the start of the process or after its own failure.
 *
 * The limits are not exact: a step can move to an endpoint while a claim takes the same place.
 */
export interface Places {
  room(): Room;
  /** Takes a place for a claim within the room. */
  take(endpointId: string): StepTurn;
}

interface Limit {
  underWay: number;
  /** True if the server answered the last step that ended. */
  answers: boolean;
  /** When the last step ended, or the first of those under way began. */
  activeAt: number;
}

export function createPlaces(): Places {
  /** The endpoint whose last step began first is first. */
  const limits = new Map<string, Limit>();

  const isAnswering = ({ answers, underWay, activeAt }: Limit) =>
    answers && (underWay === 0 || activeAt > performance.now() - SILENT_MS);

  function room(): Room {
    const left = { answering: ANSWERING, unproven: UNPROVEN, unread: UNREAD };
    const endpoints: Room['endpoints'] = [];
    for (const [endpointId, limit] of limits) {
      if (endpointId === UNKNOWN_ENDPOINT) left.unread -= limit.underWay;
      else {
        const answering = isAnswering(limit);
        if (answering) left.answering -= limit.underWay;
        else if (limit.underWay > 0) left.unproven--;
        const free = Math.max(0, (limit.answers ? EACH : 1) - limit.underWay);
        endpoints.push({ endpointId, free, answers: answering });
      }
    }
    return {
      answering: Math.max(0, left.answering),
      unproven: Math.max(0, left.unproven),
      unread: Math.max(0, left.unread),
      endpoints,
    };
  }

  function hasRoom(endpointId: string): boolean {
    const { endpoints, ...left } = room();
    const known = endpoints.find((endpoint) => endpoint.endpointId === endpointId);
    return (known?.free ?? 1) > 0 && left[known?.answers ? 'answering' : 'unproven'] > 0;
  }

  function begin(endpointId: string): void {
    const limit = limits.get(endpointId) ?? { underWay: 0, answers: false, activeAt: 0 };
    if (limit.underWay++ === 0) limit.activeAt = performance.now();
    limits.delete(endpointId);
    limits.set(endpointId, limit);
  }

  function end(endpointId: string): void {
    const limit = limits.get(endpointId) as Limit;
    limit.underWay--;
    limit.activeAt = performance.now();
  }

  return {
    room,
    take(endpointId) {
      let at = endpointId;
      begin(at);
      return {
        moveTo(other) {
          if (other === at) return true;
          if (!hasRoom(other)) return false;
          end(at);
          at = other;
          begin(at);
          return true;
        },
        answered(answered) {
          const limit = limits.get(at) as Limit;
          limit.answers = answered;
          limit.activeAt = performance.now();
        },
        end: () => end(at),
      };
    },
  };
}
