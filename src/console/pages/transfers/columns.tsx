import type { LiveTransfer, TransferListItem } from '../../api/api-types.ts';
import { useStored } from '../../api/use-stored.ts';
import { Progress } from '../../components/charts/progress.tsx';
import { CloseButton } from '../../components/dialogs/dialog.tsx';
import { DialogButton } from '../../components/dialogs/dialog-button.tsx';
import type { Column } from '../../components/tables/table.tsx';
import { FileName } from '../../components/values/file-name.tsx';
import { Path } from '../../components/values/names.tsx';
import { Time } from '../../components/values/time.tsx';
import { bytes, duration, speed } from '../../components/values/units.ts';
import { Reason } from './reason.tsx';
import { TransferState } from './states.tsx';
import { readable, withoutName } from './uri.tsx';
import { Wait } from './wait.tsx';

export type Row = TransferListItem &
  Partial<Pick<LiveTransfer, 'progress_pct' | 'speed_bps' | 'seconds_left'>>;

export const FILE: Column<Row> = {
  heading: 'File',
  kind: 'row',
  cell: ({ id, file_name, source, destination }) => (
    <>
      <a class="file" href={`/console/transfers/${id}`}>
        <FileName of={file_name} />
      </a>
      <span class="route mono clamp from-to" title={`${source} → ${destination}`}>
        <span>
          <Path of={withoutName(readable(source), file_name)} />
        </span>{' '}
        <span aria-hidden="true">→</span>{' '}
        <span>
          <Path of={withoutName(readable(destination), file_name)} />
        </span>
      </span>
    </>
  ),
};

/** The columns that can be hidden, by the names under which the browser keeps them. */
const COLUMNS = {
  state: { heading: 'State', cell: ({ status }) => <TransferState status={status} /> },
  progress: { heading: 'Progress', cell: (row) => <HowFar row={row} /> },
  size: { heading: 'Size', kind: 'number', cell: ({ size_bytes }) => bytes(size_bytes) },
  created: { heading: 'Created', cell: ({ created_at }) => <Time at={created_at} short /> },
  ended: {
    heading: 'Ended',
    cell: ({ ended_at }) => (ended_at ? <Time at={ended_at} short /> : null),
  },
  id: { heading: 'Id', cell: ({ id }) => <span class="mono">{id}</span> },
} satisfies Record<string, Column<Row>>;

/**
 * How far a transfer is: why it waits or failed, its progress, speed and time left, or how long it
 * took from its creation.
 */
function HowFar({ row }: { row: Row }) {
  const { status, error, waiting_for, created_at, completed_at } = row;
  if (waiting_for) return <Wait for={waiting_for} inRowAfter={error} />;
  if (status === 'failed' && error) return <Reason of={error} />;
  if (status === 'in_progress') return <Moving row={row} />;
  if (completed_at === null) return null;
  const seconds = (Date.parse(completed_at) - Date.parse(created_at)) / 1_000;
  return <span class="wait">Took {seconds < 1 ? 'less than 1 s' : duration(seconds)}</span>;
}

function Moving({ row: { file_name, progress_pct, speed_bps, seconds_left } }: { row: Row }) {
  const pace = [
    speed_bps != null && speed(speed_bps),
    seconds_left != null && `${duration(seconds_left)} left`,
  ].filter(Boolean);
  return (
    <span class="wait">
      <Progress percent={progress_pct ?? 0} label={`Progress of ${file_name}`} />
      {pace.length > 0 && <span class="pace number">{pace.join(', ')}</span>}
    </span>
  );
}

type Name = keyof typeof COLUMNS;
const NAMES = Object.keys(COLUMNS) as Name[];
/** New columns begin hidden, so the browser keeps what differs from this. */
const HIDDEN_AT_FIRST: Name[] = ['ended', 'id'];

/** Returns the chosen columns, which the browser keeps, and the button that chooses them. */
export function useColumns() {
  const [hidden, change] = useStored<Name[]>('waybill-hidden-columns', (stored) =>
    Array.isArray(stored) ? NAMES.filter((name) => stored.includes(name)) : HIDDEN_AT_FIRST,
  );
  const columns: Column<Row>[] = NAMES.filter((name) => !hidden.includes(name)).map(
    (name) => COLUMNS[name],
  );
  const chooser = (
    <DialogButton label="Columns" title="Columns">
      {() => (
        <>
          <fieldset>
            <legend>Show beside the file</legend>
            {NAMES.map((name) => (
              <label class="choice" key={name}>
                <input
                  type="checkbox"
                  checked={!hidden.includes(name)}
                  onChange={({ currentTarget: { checked } }) =>
                    change((before) =>
                      NAMES.filter((other) => (other === name ? !checked : before.includes(other))),
                    )
                  }
                />
                {COLUMNS[name].heading}
              </label>
            ))}
          </fieldset>
          <CloseButton>Close</CloseButton>
        </>
      )}
    </DialogButton>
  );
  return { columns: [FILE, ...columns], chooser };
}
