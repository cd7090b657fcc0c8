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
import { readable } from './uri.tsx';
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
      <span class="route mono clamp" title={`${source} → ${destination}`}>
        <Path of={readable(source)} /> <span aria-hidden="true">→</span>{' '}
        <Path of={readable(destination)} />
      </span>
    </>
  ),
};

/** The columns that can be hidden, by the names under which the browser keeps them. */
const COLUMNS = {
  state: { heading: 'State', cell: ({ status }) => <TransferState status={status} /> },
  progress: {
    heading: 'Progress',
    cell: ({ status, progress_pct, file_name, waiting_for, error }) => {
      if (waiting_for) return <Wait for={waiting_for} inRowAfter={error} />;
      if (status === 'failed' && error) return <Reason of={error} />;
      return status === 'in_progress' ? (
        <Progress percent={progress_pct ?? 0} label={`Progress of ${file_name}`} />
      ) : null;
    },
  },
  speed: {
    heading: 'Speed',
    kind: 'number',
    cell: ({ status, speed_bps }) => (status === 'in_progress' ? speed(speed_bps ?? null) : null),
  },
  time_left: {
    heading: 'Time left',
    kind: 'number',
    cell: ({ status, seconds_left }) =>
      status === 'in_progress' && seconds_left != null ? duration(seconds_left) : null,
  },
  size: { heading: 'Size', kind: 'number', cell: ({ size_bytes }) => bytes(size_bytes) },
  created: { heading: 'Created', cell: ({ created_at }) => <Time at={created_at} /> },
  completed: {
    heading: 'Completed',
    cell: ({ completed_at }) => (completed_at ? <Time at={completed_at} /> : null),
  },
  id: { heading: 'Id', cell: ({ id }) => <span class="mono">{id}</span> },
} satisfies Record<string, Column<Row>>;

type Name = keyof typeof COLUMNS;
const NAMES = Object.keys(COLUMNS) as Name[];
/** New columns begin hidden, so the browser keeps what differs from this. */
const HIDDEN_AT_FIRST: Name[] = ['completed', 'id'];

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
