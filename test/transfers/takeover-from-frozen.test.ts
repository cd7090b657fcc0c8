import { describeFrozenMovers, FREEZES } from './takeover-from-frozen.ts';

// Two writers at once, and a commit that arrives late. The long test has the other moments.
describeFrozenMovers(
  FREEZES.filter(
    ([title]) =>
      title.startsWith('in the middle, it wakes up while') || title.includes('small file'),
  ),
);
