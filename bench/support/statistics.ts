/** Returns the median. Throws RangeError for no values. */
export function median(values: number[]): number {
  return percentile(values, 50);
}

/**
 * Returns a percentile, interpolated between the two nearest values. Throws RangeError for no
 * values.
 */
export function percentile(values: number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const place = ((sorted.length - 1) * percent) / 100;
  const below = sorted[Math.floor(place)];
  const above = sorted[Math.ceil(place)];
  if (below === undefined || above === undefined) throw new RangeError('there are no values');
  return below + (above - below) * (place - Math.floor(place));
}
