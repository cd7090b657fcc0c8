import { useRoute } from 'preact-iso/router';
import type { Batch } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { Progress } from '../../components/charts/progress.tsx';
import { LoadState } from '../../components/feedback/problem.tsx';
import { Page } from '../../components/layout/page.tsx';
import { UnloadedPage } from '../../components/layout/unloaded-page.tsx';
import { CopyableId } from '../../components/values/copyable-id.tsx';
import { Facts } from '../../components/values/facts.tsx';
import { Name, Path } from '../../components/values/names.tsx';
import { Time } from '../../components/values/time.tsx';
import { bytes, many } from '../../components/values/units.ts';
import { FailingFolder } from '../flows/failing-folder.tsx';
import { afterInWords } from '../transfers/after-fields.tsx';
import { addressOf } from '../transfers/filter.ts';
import { optionsInWords } from '../transfers/option-fields.tsx';
import { StateTiles } from '../transfers/state-tiles.tsx';
import { Wait } from '../transfers/wait.tsx';
import { BatchActions } from './actions.tsx';
import { Failures, Rejected } from './failures.tsx';
import { BatchState, endedOf, progressOf, useBatchName, useFlowName } from './states.tsx';

const OPEN_MS = 1_000;
const WAITS_MS = 5_000;
/** After its end only a retry of its transfers is news. */
const ENDED_MS = 60_000;

/** One batch: its progress, what failed, and its files by state. */
export function BatchPage() {
  const id = useRoute().params.id ?? '';
  const nameOf = useBatchName();
  const { data, error, reload } = useLoad(
    (signal) => call('GET /v1/batches/{batch_id}', { path: { batch_id: id }, signal }),
    [id],
    (batch) => (batch?.ended_at ? ENDED_MS : OPEN_MS),
  );
  if (!data) {
    const list = { href: '/console/batches', label: 'Show batches' };
    return <UnloadedPage title="Batch" error={error} retry={reload} list={list} />;
  }
  const { counts, status } = data;
  const ended = endedOf(data).toLocaleString('en');
  return (
    <Page
      title={nameOf(data)}
      subtitle={
        <>
          <span role="status">
            <BatchState batch={data} />
          </span>
          <CopyableId id={id} what="batch id" />
        </>
      }
      actions={<BatchActions key={id} batch={data} onChange={reload} />}
    >
      <LoadState of={{ data, error, reload }} />
      <section class="card" aria-label="Progress">
        {data.ended_at === null && <Progress percent={progressOf(data)} label="Progress" />}
        <p class="number">
          {ended} of {many(counts.items, 'file')} ended
          {counts.failed > 0 && `, ${counts.failed.toLocaleString('en')} failed`},{' '}
          {bytes(data.bytes.completed)} copied
          {status === 'creating' && '. Files are still being listed'}
        </p>
      </section>
      {data.failing && (
        <FailingFolder failing={data.failing} uri={data.folder?.source_uri}>
          Waybill tries it again, a few times
        </FailingFolder>
      )}
      <Waits batch={data} />
      {counts.failed > counts.rejected && (
        <Failures
          batchId={id}
          failed={counts.failed - counts.rejected}
          ended={data.ended_at !== null}
        />
      )}
      {counts.rejected > 0 && <Rejected batchId={id} rejected={counts.rejected} />}
      <FilesByState batch={data} />
      <Details batch={data} />
    </Page>
  );
}

/** Says why nothing of a batch moves, as its oldest waiting transfer does. */
function Waits({ batch: { id, status, counts } }: { batch: Batch }) {
  const still = status === 'open' && counts.in_progress === 0;
  const state = counts.queued > 0 ? 'queued' : 'pending';
  const { data } = useLoad(
    async (signal) =>
      still
        ? call('GET /v1/transfers', {
            query: { batch_id: id, status: state, sort: 'created_at', limit: 1 },
            signal,
          })
        : null,
    [id, still, state],
    WAITS_MS,
  );
  const reason = data?.data[0]?.waiting_for;
  return reason ? (
    <section class="notice">
      <h2>Waiting</h2>
      <p>
        <Wait for={reason} />
      </p>
    </section>
  ) : null;
}

/** The number of files in each state, with links to their list. */
function FilesByState({ batch: { id, counts } }: { batch: Batch }) {
  const { items, failed, rejected } = counts;
  return (
    <section class="card">
      <h2>Files</h2>
      <StateTiles
        total={items}
        counts={{ ...counts, failed: failed - rejected }}
        listOf={(status) =>
          addressOf({
            filter: { batch_id: id, ...(status && { status }) },
            order: '-created_at',
            limit: undefined,
          })
        }
        others={
          rejected > 0 ? [{ label: 'Rejected', tone: 'bad', count: rejected, href: null }] : []
        }
      />
    </section>
  );
}

function Details({ batch }: { batch: Batch }) {
  const { folder, retry_of, flow_id, priority, metadata, after, created_at, ended_at } = batch;
  const nameOfFlow = useFlowName();
  const flowName = flow_id === null ? undefined : nameOfFlow(flow_id);
  return (
    <section class="card">
      <h2>Details</h2>
      <Facts
        of={{
          Source: folder ? (
            <code>
              <Path of={folder.source_uri} />
            </code>
          ) : undefined,
          Destination: folder ? (
            <code>
              <Path of={folder.destination_uri} />
            </code>
          ) : undefined,
          Pattern: folder ? <code>{folder.pattern}</code> : undefined,
          Subfolders: folder ? (folder.recursive ? 'Yes' : 'No') : undefined,
          'Left out': folder?.exclude.length ? <code>{folder.exclude.join(' ')}</code> : undefined,
          'Retry of': retry_of ? (
            <a href={`/console/batches/${retry_of}`}>
              <code>{retry_of}</code>
            </a>
          ) : undefined,
          Flow: flow_id ? (
            <a href={`/console/flows/${flow_id}`}>
              {flowName === undefined ? <code>{flow_id}</code> : <Name of={flowName} />}
            </a>
          ) : undefined,
          Priority: priority,
          Options: optionsInWords(batch),
          Afterwards: after && afterInWords(after),
          Created: <Time at={created_at} />,
          Ended: ended_at && <Time at={ended_at} />,
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
