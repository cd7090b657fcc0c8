import { expect, test } from 'vitest';
import { createHealth } from '../src/health.ts';
import { describeWithPostgres } from './support/postgres/test-database.ts';
import { openTestInstallation } from './support/service/installation.ts';

describeWithPostgres('readiness', () => {
  test('is checked once for all that ask at the same time', async () => {
    const installation = await openTestInstallation();
    let asked = 0;
    const store = {
      ...installation.store,
      head() {
        asked++;
        return installation.store.head();
      },
    };
    const health = createHealth({ ...installation, store });
    try {
      const answers = await Promise.all(Array.from({ length: 50 }, health.ready));
      expect(answers.map(({ ready }) => ready)).toEqual(Array(50).fill(true));
      expect(asked).toBe(1);
      await health.ready();
      expect(asked).toBe(2);
    } finally {
      await installation.close();
    }
  });
});
