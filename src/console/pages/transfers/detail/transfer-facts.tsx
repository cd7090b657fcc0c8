import type { TransferDetail } from '../../../api/api-types.ts';
import { CopyButton } from '../../../components/values/copy-button.tsx';
import { Facts } from '../../../components/values/facts.tsx';
import { Path } from '../../../components/values/names.tsx';
import { Time } from '../../../components/values/time.tsx';
import { bytes, speed } from '../../../components/values/units.ts';
import { afterInWords } from '../after-fields.tsx';
import { EndpointLink } from '../endpoint-link.tsx';
import { optionsInWords } from '../option-fields.tsx';
import { TransferState } from '../states.tsx';
import { Uri } from '../uri.tsx';

interface TransferFactsProps {
  title: string;
  transfer: TransferDetail;
  withState?: boolean;
}

/** Lists the state of a transfer. */
export function TransferFacts({ title, transfer, withState = false }: TransferFactsProps) {
  const {
    size_bytes,
    transferred_bytes,
    progress_pct,
    speed_bps,
    checksum_sha256,
    expected_sha256,
    metadata,
    error,
    after,
  } = transfer;
  return (
    <section class="card">
      <h2>{title}</h2>
      <Facts
        of={{
          State: withState ? <TransferState status={transfer.status} /> : undefined,
          Source: <Side uri={transfer.source} isPast={withState} />,
          Destination: <Side uri={transfer.destination} isPast={withState} />,
          Size: bytes(size_bytes),
          Transferred: `${bytes(transferred_bytes)} (${Math.floor(progress_pct)} %)`,
          'Average speed': speed(speed_bps),
          Priority: transfer.priority,
          Retries: transfer.retry_count,
          'Retry of': transfer.retry_of ? (
            <a href={`/console/transfers/${transfer.retry_of}`}>
              <code>{transfer.retry_of}</code>
            </a>
          ) : undefined,
          Batch: transfer.batch_id ? (
            <a href={`/console/batches/${transfer.batch_id}`}>
              <code>{transfer.batch_id}</code>
            </a>
          ) : undefined,
          Created: <Time at={transfer.created_at} />,
          Ended: <Time at={transfer.ended_at} />,
          Error: withState && error ? error.message : undefined,
          Afterwards: after && <AfterFacts after={after} />,
          'SHA-256': checksum_sha256 ? (
            <>
              <code>{checksum_sha256}</code> <CopyButton text={checksum_sha256} what="SHA-256" />
            </>
          ) : null,
          'Expected SHA-256':
            expected_sha256 !== undefined && expected_sha256 !== checksum_sha256 ? (
              <code>{expected_sha256}</code>
            ) : undefined,
          Options: optionsInWords(transfer),
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

/** The URI of a side, and its endpoint as it is now. */
function Side({ uri, isPast }: { uri: string; isPast: boolean }) {
  return (
    <>
      <Uri of={uri} />
      {!isPast && <EndpointLink of={uri} />}
    </>
  );
}

/** Tells what the transfer does once it has completed, and how far that is. */
function AfterFacts({ after }: { after: NonNullable<TransferDetail['after']> }) {
  return (
    <>
      {afterInWords(after)} {STATES[after.state]}
      {after.reason && `: ${after.reason.message}`}
      {after.moved_to && (
        <>
          {': '}
          <code>
            <Path of={after.moved_to} />
          </code>
        </>
      )}
    </>
  );
}

const STATES: Record<NonNullable<TransferDetail['after']>['state'], string> = {
  waiting: '(when it has completed)',
  pending: '(pending)',
  done: '(done)',
  not_done: '(not done)',
};
