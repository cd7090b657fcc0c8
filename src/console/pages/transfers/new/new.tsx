import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import type { Endpoint, Priority, TransferDetail } from '../../../api/api-types.ts';
import { call, invalidField, RequestFailed } from '../../../api/client.ts';
import { useIdempotencyKey } from '../../../api/use-idempotency-key.ts';
import { useLoad } from '../../../api/use-load.ts';
import { LoadState } from '../../../components/feedback/problem.tsx';
import { Checkbox } from '../../../components/forms/checkbox.tsx';
import { Form } from '../../../components/forms/form.tsx';
import { Page } from '../../../components/layout/page.tsx';
import { useOpen } from '../../../components/layout/use-open.ts';
import { useSession } from '../../../session.tsx';
import { AFTER_FIELDS, AfterFields, afterOf, chosenAfter } from '../after-fields.tsx';
import { chosen, OptionFields, optionsOf } from '../option-fields.tsx';
import { PriorityField } from '../priority-field.tsx';
import { MetadataFields, metadataNames, metadataOf } from './metadata-fields.tsx';
import { initialPlace, uriOf } from './place.ts';
import { CHOOSE, PlaceFields } from './place-fields.tsx';

/** Creates a transfer; `?like=` names one whose values fill the form. */
export function NewTransferPage() {
  const { account } = useSession().session;
  const { like } = useLocation().query;
  const {
    data: latest,
    stale,
    error,
    reload,
  } = useLoad(
    async (signal) => {
      const [{ data: endpoints }, template] = await Promise.all([
        call('GET /v1/endpoints', { signal }),
        like ? findTransfer(like, signal) : null,
      ]);
      return {
        endpoints: endpoints.filter(
          ({ accounts }) => accounts === null || accounts.includes(account),
        ),
        template,
      };
    },
    [like, account],
  );
  // A form takes its first values once: it waits for those of the transfer in the address.
  const data = stale ? null : latest;
  return (
    <Page title="New transfer">
      <LoadState of={{ data, error, reload }} />
      {data?.endpoints.length === 0 && (
        <p class="notice warning">
          This account has no endpoint to copy to.{' '}
          <a href="/console/settings/endpoints">Show endpoints</a>
        </p>
      )}
      {data && like && data.template === null && (
        <p class="notice warning">
          There is no such transfer as <code>{like}</code> in {account}, so the form is empty.
        </p>
      )}
      {data && <TransferForm key={like} {...data} />}
    </Page>
  );
}

/** Returns a transfer whose values fill the form. Null if it is not there: the form does without. */
function findTransfer(transfer_id: string, signal: AbortSignal): Promise<TransferDetail | null> {
  return call('GET /v1/transfers/{transfer_id}', { path: { transfer_id }, signal }).catch(
    (error: unknown) => {
      if (error instanceof RequestFailed && error.problem.status === 404) return null;
      throw error;
    },
  );
}

function TransferForm({
  endpoints,
  template,
}: {
  endpoints: Endpoint[];
  template: TransferDetail | null;
}) {
  const open = useOpen();
  const [source, setSource] = useState(() => initialPlace(template?.source, endpoints));
  const [destination, setDestination] = useState(() =>
    initialPlace(template?.destination, endpoints),
  );
  const [priority, setPriority] = useState<Priority>(template?.priority ?? 'normal');
  const [notify, setNotify] = useState(false);
  const [metadata, setMetadata] = useState(() => Object.entries(template?.metadata ?? {}));
  const [options, setOptions] = useState(() => optionsOf(template));
  const [after, setAfter] = useState(() => afterOf(template));

  const body = {
    source_uri: source && uriOf(source),
    destination_uri: destination && uriOf(destination),
    priority,
    notify_on_complete: notify,
    ...chosen(options),
    ...chosenAfter(after),
  };
  const idempotencyKey = useIdempotencyKey([body, metadata]);

  async function create(): Promise<void> {
    const { source_uri, destination_uri } = body;
    if (source_uri === null) throw invalidField('source_uri', CHOOSE);
    if (destination_uri === null) throw invalidField('destination_uri', CHOOSE);
    const { id } = await call('POST /v1/transfers', {
      body: { ...body, source_uri, destination_uri, metadata: metadataOf(metadata) },
      idempotencyKey,
    });
    open(`/console/transfers/${id}`);
  }

  return (
    <section class="card">
      <Form
        submit="Create transfer"
        onSubmit={create}
        fields={[
          'source_uri',
          'destination_uri',
          'expected_sha256',
          ...AFTER_FIELDS,
          ...metadataNames(metadata),
        ]}
        beside={
          <a class="button" href="/console/transfers">
            Cancel
          </a>
        }
      >
        {(errors) => (
          <>
            <PlaceFields
              legend="Source"
              pick="file"
              endpoints={endpoints}
              place={source}
              onChange={setSource}
              error={errors.source_uri}
            />
            <PlaceFields
              legend="Destination"
              pick="folder"
              endpoints={endpoints}
              place={destination}
              onChange={setDestination}
              error={errors.destination_uri}
            />
            <div class="field-row">
              <PriorityField value={priority} onChange={setPriority} />
              <Checkbox
                label="Notify all webhooks when it ends"
                checked={notify}
                onChange={setNotify}
              />
            </div>
            <OptionFields options={options} onChange={setOptions} error={errors.expected_sha256} />
            <AfterFields value={after} onChange={setAfter} errors={errors} />
            <MetadataFields entries={metadata} onChange={setMetadata} errors={errors} />
          </>
        )}
      </Form>
    </section>
  );
}
