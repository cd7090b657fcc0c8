import { useRoute } from 'preact-iso/router';
import { call } from '../../api/client.ts';
import type { Batch } from '../../api/operations.ts';
import { useLoad } from '../../api/use-load.ts';
import { CopyButton } from '../../components/copy-button.tsx';
import { Facts } from '../../components/facts.tsx';
import { Page } from '../../components/page.tsx';
import { ProblemNotice, UnloadedPage } from '../../components/problem.tsx';
import { Progress } from '../../components/progress.tsx';
import { Time } from '../../components/time.tsx';
import { bytes } from '../../components/units.ts';
import { afterInWords } from '../transfers/after-fields.tsx';
import { addressOf } from '../transfers/filter.ts';
import { optionsInWords } from '../transfers/option-fields.tsx';
import { labelOf, STATUSES } from '../transfers/states.tsx';
import { BatchActions } from './actions.tsx';
import { Failures, Rejected } from './failures.tsx';
import { BatchState, endedOf, nameOf, progressOf } from './states.tsx';

const OPEN_MS = 1_000;
/** After its end only a retry of its transfers is news. */
const ENDED_MS = 60_000;

/** One batch: its progress, what failed, and its files by state. */
export function BatchPage() {
  const id = useRoute().params.id ?? '';
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
  const ended = endedOf(data).toLocaleString();
  return (
    <Page
      title={nameOf(data)}
      subtitle={
        <>
          <BatchState status={status} />
          <span class="mono">{id}</span>
          <CopyButton text={id} what="batch id" />
        </>
      }
      actions={<BatchActions key={id} batch={data} onChange={reload} />}
    >
      {error && <ProblemNotice error={error} retry={reload} />}
      <section class="card" aria-label="Progress">
        <Progress percent={progressOf(data)} label="Progress" />
        <p class="number">
          {ended} of {counts.items.toLocaleString()} files ended
          {counts.failed > 0 && `, ${counts.failed.toLocaleString()} failed`},{' '}
          {bytes(data.bytes.completed)} copied
          {status === 'creating' && '. Files are still being listed'}
        </p>
      </section>
      {counts.failed > counts.rejected && (
        <Failures batchId={id} failed={counts.failed - counts.rejected} />
      )}
      {counts.rejected > 0 && <Rejected batchId={id} rejected={counts.rejected} />}
      <FilesByState batch={data} />
      <Details batch={data} />
    </Page>
  );
}

/** The number of files in each state, with links to their list. */
function FilesByState({ batch: { id, counts } }: { batch: Batch }) {
  const address = (filter: object) =>
    addressOf({ filter: { batch_id: id, ...filter }, order: '-created_at', limit: undefined });
  const number = (status: (typeof STATUSES)[number]) =>
    status === 'failed' ? counts.failed - counts.rejected : counts[status];
  return (
    <section class="card">
      <h2>Files</h2>
      <Facts
        of={{
          All: <a href={address({})}>{counts.items.toLocaleString()}</a>,
          ...Object.fromEntries(
            STATUSES.map((status) => [
              labelOf(status),
              number(status) === 0 ? (
                0
              ) : (
                <a href={address({ status })}>{number(status).toLocaleString()}</a>
              ),
            ]),
          ),
          Rejected: counts.rejected.toLocaleString(),
        }}
      />
    </section>
  );
}

function Details({ batch }: { batch: Batch }) {
  const { folder, retry_of, flow_id, priority, metadata, after, created_at, ended_at } = batch;
  return (
    <section class="card">
      <h2>Details</h2>
      <Facts
        of={{
          Source: folder ? <code>{folder.source_uri}</code> : undefined,
          Destination: folder ? <code>{folder.destination_uri}</code> : undefined,
          Pattern: folder ? <code>{folder.pattern}</code> : undefined,
          Subfolders: folder ? (folder.recursive ? 'yes' : 'no') : undefined,
          'Left out': folder?.exclude.length ? <code>{folder.exclude.join(' ')}</code> : undefined,
          'Retry of': retry_of ? (
            <a class="mono" href={`/console/batches/${retry_of}`}>
              {retry_of}
            </a>
          ) : undefined,
          Flow: flow_id ? (
            <a class="mono" href={`/console/flows/${flow_id}`}>
              {flow_id}
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
