/**
 * Ignores the second click of a double click. By then, the button may do something else, or another
 * entry may be at the same place.
 */
export function once(act: () => void) {
  return ({ detail }: MouseEvent) => detail < 2 && act();
}
