/** Returns a list without repetitions, for `overwrite` of a schema. */
export function eachOnce<Item>(list: Item[]): Item[] {
  return [...new Set(list)];
}
