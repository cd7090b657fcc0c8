import { useState } from 'preact/hooks';
import type { Projection, ProjectionList, ProjectionTask } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { LAG_COUNTED_TO } from '../../api/limits.ts';
import { useEvents } from '../../api/use-events.ts';
import { Progress } from '../../components/charts/progress.tsx';
import { ActionButton } from '../../components/dialogs/action-button.tsx';
import { ConfirmButton } from '../../components/dialogs/confirm.tsx';
import { useToast } from '../../components/feedback/toast.tsx';
import { type Column, Table } from '../../components/tables/table.tsx';
import { Live } from '../../components/values/live.tsx';
import { Status } from '../../components/values/status.tsx';
import { Time } from '../../components/values/time.tsx';
import { duration, many } from '../../components/values/units.ts';

const STATES = {
  running: ['good', 'Running'],
  stopped: ['warning', 'Stopped'],
  failed: ['bad', 'Failed'],
} as const;

const COLUMNS: Column<Projection>[] = [
  { heading: 'Name', kind: 'row', cell: ({ name }) => <strong class="whole">{name}</strong> },
  {
    heading: 'State',
    cell: ({ state, detail }) => (
      <span>
        <Status tone={STATES[state][0]}>{STATES[state][1]}</Status>
        {state === 'failed' && detail && <span class="route">{detail}</span>}
      </span>
    ),
  },
  { heading: 'Lag', kind: 'number', cell: lag },
  { heading: 'Position', kind: 'number', cell: ({ position }) => position },
  {
    heading: 'Last tasks',
    cell: ({ name, rebuild, verify }) =>
      (rebuild || verify) && (
        <div class="tasks">
          {rebuild && <Task task={rebuild} what="Rebuild" projection={name} />}
          {verify && <Task task={verify} what="Verification" projection={name} />}
        </div>
      ),
  },
  { heading: 'Actions', cell: (projection) => <Actions projection={projection} /> },
];

/** Shows the projections and process managers, live. */
export function Projections() {
  const [list, setList] = useState<Projection[] | null>(null);
  const liveness = useEvents<ProjectionList>(
    '/v1/projections/live',
    ['projections'],
    (_, { data }) => setList(data),
  );
  return (
    <section class="card">
      <header class="page-header">
        <h2>Projections</h2>
        <Live of={liveness} />
      </header>
      <p>
        Read models are derived from the log. <em>Verify</em> compares one with the log;{' '}
        <em>Rebuild</em> recreates it without downtime.
      </p>
      {list && (
        <Table
          caption="Projections and process managers by name"
          columns={COLUMNS}
          rows={list}
          id={({ name }) => name}
        />
      )}
    </section>
  );
}

function lag({ lag_events, lag_seconds }: Projection): string {
  if (lag_events === 0) return 'None';
  const events =
    lag_events >= LAG_COUNTED_TO
      ? `${LAG_COUNTED_TO.toLocaleString('en')}+ events`
      : many(lag_events, 'event');
  return `${events}, ${duration(lag_seconds)}`;
}

function Actions({ projection: { name, tasks } }: { projection: Projection }) {
  const notify = useToast();
  const path = { name };
  async function rebuild(): Promise<void> {
    await call('POST /v1/projections/{name}/rebuild', { path });
    notify(`Rebuild of ${name} requested`);
  }
  async function verify(): Promise<void> {
    await call('POST /v1/projections/{name}/verify', { path });
    notify(`Verification of ${name} requested`);
  }
  if (tasks.length === 0) return null;
  return (
    <div class="actions">
      {tasks.includes('rebuild') && (
        <ConfirmButton
          label="Rebuild"
          target={name}
          kind="plain"
          title={`Rebuild ${name}?`}
          onConfirm={rebuild}
        >
          <p>
            Waybill fills new tables from the first event, then switches over. The live tables stay
            in use until then.
          </p>
        </ConfirmButton>
      )}
      {tasks.includes('verify') && (
        <ActionButton onAction={verify}>
          Verify<span class="visually-hidden"> {name}</span>
        </ActionButton>
      )}
    </div>
  );
}

interface TaskProps {
  task: ProjectionTask;
  what: string;
  projection: string;
}

const TASK_STATES = {
  waiting: ['neutral', 'waits for a projector'],
  running: ['active', 'running'],
  failed: ['bad', 'failed'],
  done: ['good', 'done'],
} as const;

/** A screen reader reads each change of its state, but not of its progress. */
function Task({ task, what, projection }: TaskProps) {
  const [tone, word] = TASK_STATES[task.state];
  return (
    <div>
      <span role="status">
        <Status tone={task.differences?.length ? 'warning' : tone}>{`${what} ${word}`}</Status>
        <span class="visually-hidden"> of {projection}</span>
      </span>{' '}
      {task.state === 'running' && <Running {...{ task, what, projection }} />}
      {task.state === 'failed' && <span class="route">{task.error}</span>}
      {task.state === 'done' && <Done task={task} />}
    </div>
  );
}

function Running({ task, what, projection }: TaskProps) {
  const { share, events, events_per_second, seconds_left } = task;
  return (
    <>
      <Progress percent={share * 100} label={`${what} of ${projection}`} />
      <span class="route number">
        {many(events, 'event')}
        {events_per_second !== null && `, ${events_per_second.toLocaleString('en')} per second`}
        {seconds_left !== null && `, ${duration(seconds_left)} left`}
      </span>
    </>
  );
}

function Done({ task: { events, finished_at, differences } }: Pick<TaskProps, 'task'>) {
  return (
    <>
      <Time at={finished_at} />
      <span class="route number">
        {many(events, 'event')}
        {differences && `, ${found(differences)}`}
      </span>
      {differences && differences.length > 0 && (
        <>
          <ul class="mono">
            {differences.map((key) => (
              <li key={key}>{key}</li>
            ))}
          </ul>
          <span class="route">
            The table or the log was changed. Keep a copy of both, and compare the log with a
            checkpoint before you rebuild.
          </span>
        </>
      )}
    </>
  );
}

function found(differences: string[]): string {
  if (differences.length === 0) return 'no differences';
  return many(differences.length, 'difference');
}
