import { describeFrozenMovers, FREEZES } from './takeover-from-frozen.ts';

const TWO_WRITERS = 'in the middle, it wakes up while';

// The long test tries every moment with every kind of endpoint.
describeFrozenMovers((to) =>
  FREEZES.filter(([title]) => to === 'sftp' && title.startsWith(TWO_WRITERS)),
);
