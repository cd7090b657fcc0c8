/** Differences up to which an unknown name counts as misspelt. */
const MISSPELT = 3;

/** Finds names that look like a setting and are none. `known` are the names of all settings. */
export function unknownNames(given: object, known: readonly string[]): string[] {
  return Object.keys(given)
    .filter((name) => /^WAYBILL_/i.test(name) && !known.includes(name))
    .map((name) => {
      const meant = nameMeantBy(name.toUpperCase(), known);
      return `${name} is not a setting: ${
        meant === null ? 'docs/settings.md lists them all' : `did you mean ${meant}?`
      }`;
    });
}

/** Returns the setting that an unknown name is nearest to. Null if it is near none. */
function nameMeantBy(name: string, known: readonly string[]): string | null {
  const unprefixed = name.replace('WAYBILL_', '');
  if (known.includes(unprefixed)) return unprefixed;
  const nearest = known.toSorted((a, b) => distance(name, a) - distance(name, b))[0] as string;
  return distance(name, nearest) <= MISSPELT ? nearest : null;
}

/** Returns the Levenshtein distance: the number of characters to insert, remove or replace. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (const [i, character] of [...a].entries()) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const replaced = (row[j] as number) + (character === b[j] ? 0 : 1);
      next.push(Math.min(replaced, (row[j + 1] as number) + 1, (next[j] as number) + 1));
    }
    row = next;
  }
  return row.at(-1) as number;
}
