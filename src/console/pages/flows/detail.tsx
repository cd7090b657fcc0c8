import { useState } from 'preact/hooks';
import { useRoute } from 'preact-iso/router';
import type { Flow, FlowRun } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { LoadState } from '../../components/feedback/problem.tsx';
import { useToast } from '../../components/feedback/toast.tsx';
import { Page } from '../../components/layout/page.tsx';
import { UnloadedPage } from '../../components/layout/unloaded-page.tsx';
import { type Column, Table } from '../../components/tables/table.tsx';
import { CopyableId } from '../../components/values/copyable-id.tsx';
import { Facts } from '../../components/values/facts.tsx';
import { Path } from '../../components/values/names.tsx';
import { Time } from '../../components/values/time.tsx';
import { bytes, many } from '../../components/values/units.ts';
import { SubjectHistory } from '../audit/subject-history.tsx';
import { afterInWords } from '../transfers/after-fields.tsx';
import { EndpointLink } from '../transfers/endpoint-link.tsx';
import { FlowActions } from './actions.tsx';
import { type DryRun, DryRunResult } from './dry-run.tsx';
import { FailingFolder } from './failing-folder.tsx';
import { Files } from './files.tsx';
import { FlowState, NextRun, RunState, readyOf, triggerOf } from './states.tsx';

const LOAD_MS = 2_000;

/** One flow: what is wrong with it, when it runs, its runs and its files. */
export function FlowPage() {
  const id = useRoute().params.id ?? '';
  const notify = useToast();
  const [dry, setDry] = useState<DryRun | null>(null);
  const { data, error, reload } = useLoad(
    (signal) => call('GET /v1/flows/{flow_id}', { path: { flow_id: id }, signal }),
    [id],
    LOAD_MS,
  );
  if (!data) {
    const list = { href: '/console/flows', label: 'Show flows' };
    return <UnloadedPage title="Flow" error={error} retry={reload} list={list} />;
  }
  const rehearse = () =>
    call('POST /v1/flows/{flow_id}/runs', {
      path: { flow_id: id },
      body: { dry_run: true },
    }).then((answer) => {
      const { error, counts } = answer as DryRun;
      setDry(answer as DryRun);
      // A screen reader reads nothing of the section that appears.
      notify(error ? error.message : `A run would take ${many(counts.take, 'file')}`);
    });
  return (
    <Page
      title={data.name}
      subtitle={
        <>
          <FlowState flow={data} />
          <CopyableId id={id} what="flow id" />
        </>
      }
      actions={<FlowActions key={id} flow={data} onChange={reload} onDryRun={rehearse} />}
    >
      <LoadState of={{ data, error, reload }} />
      {data.failing && <FailingFolder failing={data.failing} uri={data.source.uri} />}
      {dry && <DryRunResult of={dry} />}
      <Schedule flow={data} />
      <Runs runs={data.recent_runs} />
      <Files flowId={id} stamp={data.recent_runs[0]?.id ?? ''} />
      <SubjectHistory kind="flow" id={id} stamp={`${data.status} ${data.failing?.since}`} />
      <Settings flow={data} />
    </Page>
  );
}

function Schedule({ flow }: { flow: Flow }) {
  const open = flow.recent_runs.find((run) => run.id === flow.delayed_by)?.batch_id;
  return (
    <section class="card">
      <h2>Schedule</h2>
      <Facts
        of={{
          'Next run': <NextRun flow={flow} />,
          'Waits for': flow.delayed_by ? (
            <>
              {open ? <a href={`/console/batches/${open}`}>The run before</a> : 'The run before'},
              which is still open
            </>
          ) : undefined,
          'Last run': <Time at={flow.last_run_at} />,
          'Last success': <Time at={flow.last_success_at} />,
          'Waiting files': flow.waiting_files.toLocaleString('en'),
        }}
      />
    </section>
  );
}

const RUN_COLUMNS: Column<FlowRun>[] = [
  {
    heading: 'Started',
    kind: 'row',
    cell: ({ started_at, batch_id }) =>
      batch_id === null ? (
        <Time at={started_at} />
      ) : (
        <a href={`/console/batches/${batch_id}`}>
          <Time at={started_at} />
        </a>
      ),
  },
  { heading: 'State', cell: ({ status }) => <RunState status={status} /> },
  { heading: 'Why', cell: ({ reason }) => (reason === 'schedule' ? 'Automatic' : 'Request') },
  { heading: 'Files', kind: 'number', cell: ({ counts }) => numberOf(counts?.files) },
  { heading: 'Failed', kind: 'number', cell: ({ counts }) => numberOf(counts?.failed) },
  {
    heading: 'Size',
    kind: 'number',
    cell: ({ bytes: size }) => (size === null ? '–' : bytes(size)),
  },
];

const numberOf = (count: number | undefined) => count?.toLocaleString('en') ?? '–';

function Runs({ runs }: { runs: FlowRun[] }) {
  return (
    <section class="card">
      <h2>Runs</h2>
      {runs.length === 0 ? (
        <p class="muted">It has taken nothing yet.</p>
      ) : (
        <Table caption="Recent runs" columns={RUN_COLUMNS} rows={runs} id={({ id }) => id} />
      )}
    </section>
  );
}

function FlowFolder({ of }: { of: string }) {
  return (
    <>
      <code>
        <Path of={of} />
      </code>
      <EndpointLink of={of} />
    </>
  );
}

function Settings({ flow }: { flow: Flow }) {
  const { source, destination_uri, after, priority, start, created_at, metadata } = flow;
  return (
    <section class="card">
      <h2>Settings</h2>
      <Facts
        of={{
          Source: <FlowFolder of={source.uri} />,
          Pattern: <code>{source.pattern}</code>,
          Subfolders: source.recursive ? 'Yes' : 'No',
          'Left out': source.exclude.length ? <code>{source.exclude.join(' ')}</code> : undefined,
          Destination: <FlowFolder of={destination_uri} />,
          Runs: triggerOf(flow),
          'A file is ready': readyOf(flow),
          'Earlier files': start === 'now' ? 'Taken' : 'Skipped',
          Afterwards: after && afterInWords(after),
          Priority: priority,
          Created: <Time at={created_at} />,
        }}
      />
      {Object.keys(metadata).length > 0 && (
        <>
          <h3>Metadata</h3>
          <Facts of={metadata} />
        </>
      )}
    </section>
  );
}
