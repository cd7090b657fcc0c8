import { useEffect, useState } from 'preact/hooks';
import { dayOf, type Edge, edgeOf } from '../values/instants.ts';
import { useZone } from '../values/time-zone.tsx';

/** The keyboard types a year digit by digit: 2026 is at first the years 2, 20 and 202. */
const FIRST_YEAR = '1000';
/** `YYYY-MM-DD`. Browsers also accept years of five and six digits, which no time of the API has. */
const DAY = /^\d{4}-\d{2}-\d{2}$/;

/**
 * A field for the first or last day of a filter, in the shown zone. Its value is the instant at
 * that edge of the day, so an address with it shows the same rows in every zone.
 */
function DayField({
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
  const day = dayOf(value ?? '', edge, zone);
  // Until a year is whole, the field keeps it, even if the page renders again.
  const [typed, setTyped] = useState(day);
  useEffect(() => setTyped(day), [day]);
  const isWrong = typed !== '' && !DAY.test(typed);
  function change(to: string): void {
    setTyped(to);
    if (to === '' || (DAY.test(to) && to >= FIRST_YEAR)) onChange(edgeOf(to, edge, zone));
  }
  return (
    <label>
      <span>{label}</span>
      <input
        type="date"
        value={typed}
        aria-invalid={isWrong ? true : undefined}
        onChange={({ currentTarget }) => change(currentTarget.value)}
      />
      {isWrong && (
        <span class="error" role="alert">
          Enter a year of four digits
        </span>
      )}
    </label>
  );
}

/** The fields for the first and the last day of a list. */
export function DayRange({
  labels: [from, to],
  filter: { from_date, to_date },
  onChange,
}: {
  labels: readonly [from: string, to: string];
  filter: { from_date?: string | undefined; to_date?: string | undefined };
  onChange: (changes: Record<string, string>) => void;
}) {
  return (
    <div class="days">
      <DayField
        label={from}
        value={from_date}
        edge="start"
        onChange={(instant) => onChange({ from_date: instant })}
      />
      <DayField
        label={to}
        value={to_date}
        edge="end"
        onChange={(instant) => onChange({ to_date: instant })}
      />
    </div>
  );
}
