/** Returns the changes that differ from the settings as they are. `undefined` is no change. */
export function changedSettings<Settings extends object>(
  changes: Partial<Settings>,
  settings: Settings,
  isSame: (one: unknown, other: unknown) => boolean,
): Partial<Settings> {
  return Object.fromEntries(
    Object.entries(changes).filter(
      ([name, value]) => value !== undefined && !isSame(value, settings[name as keyof Settings]),
    ),
  ) as Partial<Settings>;
}
