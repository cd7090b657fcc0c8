import { expect, it, onTestFinished } from 'vitest';
import { withTimeout } from '../../src/concurrency/with-timeout.ts';

it('counts a deadline that has passed as no time, without a warning of Node', async () => {
  const warnings: Error[] = [];
  const note = (warning: Error) => warnings.push(warning);
  process.on('warning', note);
  onTestFinished(() => void process.off('warning', note));
  const silent = new Promise<never>(() => undefined);
  await expect(withTimeout(-32.9, silent, RangeError)).rejects.toThrow(RangeError);
  expect(warnings).toEqual([]);
});
