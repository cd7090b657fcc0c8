import { describeFrozenMovers, FREEZES } from './takeover-from-frozen.ts';

const TWO_WRITERS = 'in the middle, it wakes up while';
const LATE_COMMIT = 'at the commit of a small file';

/** Two writers at once where parts have a name, and a commit that arrives late where not. */
const TRIED = {
  sftp: [TWO_WRITERS],
  ftps: [],
  's3-ceph': [],
  's3-strict': [],
  azure: [LATE_COMMIT],
};

// The long test tries every moment with every kind of endpoint.
describeFrozenMovers((to) =>
  FREEZES.filter(([title]) => TRIED[to].some((begin) => title.startsWith(begin))),
);
