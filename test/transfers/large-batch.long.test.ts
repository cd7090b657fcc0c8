import { describeLargeBatch } from './large-batch.ts';

await describeLargeBatch(100_000);
