/**
 * Runs the contestants in turn, so that other load on the machine affects all of them alike. The
 * first round warms up and does not count. Every second round runs in reverse order.
 */
export async function alternate<Result>(
  runs: number,
  contestants: Record<string, () => Promise<Result>>,
): Promise<Record<string, Result[]>> {
  const results: Record<string, Result[]> = Object.fromEntries(
    Object.keys(contestants).map((name) => [name, []]),
  );
  for (let round = 0; round <= runs; round++) {
    const order = Object.entries(contestants);
    if (round % 2 === 1) order.reverse();
    for (const [name, run] of order) {
      const result = await run();
      if (round > 0) results[name]?.push(result);
    }
  }
  return results;
}
