import { dayOf, type Edge, edgeOf } from '../values/instants.ts';
import { useZone } from '../values/time-zone.tsx';

/**
 * A field for the first or last day of a filter, in the shown zone. Its value is the instant at
 * that edge of the day, so an address with it shows the same rows in every zone.
 */
export function DayField({
  label,
  value,
  edge,
  onChange,
}: {
  label: string;
  value: string | undefined;
  edge: Edge;
  onChange: (instant: string) => void;
}) {
  const zone = useZone();
  return (
    <label>
      <span>{label}</span>
      <input
        type="date"
        value={dayOf(value ?? '', edge, zone)}
        onChange={({ currentTarget }) => onChange(edgeOf(currentTarget.value, edge, zone))}
      />
    </label>
  );
}
