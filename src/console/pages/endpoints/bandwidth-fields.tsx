import { useRef } from 'preact/hooks';
import type { Bandwidth } from '../../api/api-types.ts';
import { BANDWIDTH_WINDOWS } from '../../api/limits.ts';
import { Field } from '../../components/forms/field.tsx';
import { useNextFocus } from '../../components/forms/use-next-focus.ts';

const WINDOW = { days: 'Days', from: 'From', to: 'To', time_zone: 'Time zone' } as const;
const PLACEHOLDERS = {
  days: 'mon, tue, wed, thu, fri',
  from: '08:00',
  to: '18:00',
  time_zone: 'Europe/Berlin',
};
const NAMES = Object.keys(WINDOW) as (keyof typeof WINDOW)[];
const DAYS_IN_WEEK = 7;

type DraftWindow = Record<keyof typeof WINDOW | 'limit', string>;

/** The texts of the form. */
export interface BandwidthDraft {
  limit: string;
  windows: DraftWindow[];
}

export function draftOf(bandwidth: Bandwidth | null): BandwidthDraft {
  return {
    limit: String(bandwidth?.bytes_per_second ?? ''),
    windows: (bandwidth?.windows ?? []).map(({ days, bytes_per_second, ...times }) => ({
      ...times,
      days: days.length === DAYS_IN_WEEK ? '' : days.join(', '),
      limit: String(bytes_per_second ?? ''),
    })),
  };
}

/** Returns the value for the API. It checks what is no number. */
export function bandwidthOf({ limit, windows }: BandwidthDraft): unknown {
  if (limit === '' && windows.length === 0) return null;
  return {
    bytes_per_second: bytesIn(limit),
    windows: windows.map(({ days, time_zone, from, to, limit }) => ({
      from,
      to,
      bytes_per_second: bytesIn(limit),
      ...(days !== '' && { days: days.split(',').map((day) => day.trim().toLowerCase()) }),
      ...(time_zone !== '' && { time_zone }),
    })),
  };
}

function bytesIn(limit: string): number | string | null {
  if (limit === '') return null;
  return /^\d+$/.test(limit) ? Number(limit) : limit;
}

const LIMIT = 'bandwidth.bytes_per_second';
const fieldOf = (index: number, name: string) => `bandwidth.windows[${index}].${name}`;

/** Returns the names of the request's fields that a draft has. */
export function bandwidthNames({ windows }: BandwidthDraft): string[] {
  return [
    LIMIT,
    ...windows.flatMap((window, index) => [
      ...[...NAMES, 'bytes_per_second'].map((name) => fieldOf(index, name)),
      ...window.days.split(',').map((_, day) => fieldOf(index, `days[${day}]`)),
    ]),
  ];
}

interface BandwidthFieldsProps {
  draft: BandwidthDraft;
  errors: Record<string, string>;
  onChange: (draft: BandwidthDraft) => void;
}

/** Asks for the limit of the bandwidth, and for times of the day with another one. */
export function BandwidthFields({ draft, errors, onChange }: BandwidthFieldsProps) {
  const { windows } = draft;
  const fields = useRef<HTMLFieldSetElement>(null);
  const focusNext = useNextFocus();
  function append(): void {
    focusNext(() => fields.current?.querySelector(':scope > fieldset:last-of-type input'));
    onChange({ ...draft, windows: [...windows, newWindow()] });
  }
  const change = (index: number, changes: Partial<DraftWindow>) =>
    onChange({
      ...draft,
      windows: windows.map((window, at) => (at === index ? { ...window, ...changes } : window)),
    });
  return (
    <fieldset ref={fields}>
      <legend>Bandwidth</legend>
      <div class="field-row">
        <Field
          label="Bytes per second"
          hint="All its transfers together. Empty: no limit"
          error={errors[LIMIT]}
        >
          <input
            inputMode="numeric"
            placeholder="5000000"
            value={draft.limit}
            onInput={({ currentTarget }) => onChange({ ...draft, limit: currentTarget.value })}
          />
        </Field>
      </div>
      {windows.map((window, index) => (
        <fieldset key={index}>
          <legend>Window {index + 1}</legend>
          <div class="field-row">
            {NAMES.map((name) => (
              <Field
                key={name}
                label={WINDOW[name]}
                hint={name === 'days' ? 'Empty: every day' : undefined}
                error={errors[fieldOf(index, name)] ?? errorOfDay(errors, index, name)}
              >
                <input
                  spellcheck={false}
                  autoCapitalize="none"
                  autoComplete="off"
                  placeholder={PLACEHOLDERS[name]}
                  value={window[name]}
                  onInput={({ currentTarget }) => change(index, { [name]: currentTarget.value })}
                />
              </Field>
            ))}
            <Field
              label="Bytes per second in this window"
              hint="Empty: no limit"
              error={errors[fieldOf(index, 'bytes_per_second')]}
            >
              <input
                inputMode="numeric"
                value={window.limit}
                onInput={({ currentTarget }) => change(index, { limit: currentTarget.value })}
              />
            </Field>
          </div>
          <div class="actions">
            <button
              type="button"
              onClick={() => onChange({ ...draft, windows: windows.toSpliced(index, 1) })}
            >
              Remove window {index + 1}
            </button>
          </div>
        </fieldset>
      ))}
      {windows.length < BANDWIDTH_WINDOWS && (
        <div class="actions">
          <button type="button" onClick={append}>
            Add a window
          </button>
        </div>
      )}
    </fieldset>
  );
}

function newWindow(): DraftWindow {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  return { days: '', from: '', to: '', time_zone: timeZone, limit: '' };
}

/** Returns the first error of one of the days. */
function errorOfDay(errors: Record<string, string>, index: number, name: string) {
  if (name !== 'days') return undefined;
  const found = Object.keys(errors).find((field) => field.startsWith(fieldOf(index, 'days[')));
  return found && errors[found];
}
