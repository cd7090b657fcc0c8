import { describeFrozenMovers, FREEZES } from './takeover-from-frozen.ts';

describeFrozenMovers(() => FREEZES);
