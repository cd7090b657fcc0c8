import { type ComponentChildren, createContext } from 'preact';
import { useContext, useMemo, useState } from 'preact/hooks';
import type { Zone } from './instants.ts';

const STORED = 'waybill-time-zone';
const ZONES: Record<Zone, string> = {
  local: `Local (${Intl.DateTimeFormat().resolvedOptions().timeZone})`,
  utc: 'UTC',
};
const Context = createContext<{ zone: Zone; choose: (zone: Zone) => void }>({
  zone: 'local',
  choose: () => {},
});

/** Returns the zone in which to show and to read times. */
export const useZone = (): Zone => useContext(Context).zone;

/** Keeps the chosen zone in the browser. */
export function ZoneProvider({ children }: { children: ComponentChildren }) {
  const [zone, setZone] = useState<Zone>(() =>
    localStorage.getItem(STORED) === 'utc' ? 'utc' : 'local',
  );
  const state = useMemo(
    () => ({
      zone,
      choose(chosen: Zone) {
        setZone(chosen);
        localStorage.setItem(STORED, chosen);
      },
    }),
    [zone],
  );
  return <Context.Provider value={state}>{children}</Context.Provider>;
}

/** Selects the zone of all times. */
export function ZoneSwitch() {
  const { zone, choose } = useContext(Context);
  return (
    <label>
      <span>Time zone</span>
      <select value={zone} onChange={({ currentTarget }) => choose(currentTarget.value as Zone)}>
        {Object.entries(ZONES).map(([name, label]) => (
          <option key={name} value={name}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
}
