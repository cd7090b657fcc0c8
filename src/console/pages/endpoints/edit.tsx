import { useRoute } from 'preact-iso/router';
import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { Page } from '../../components/layout/page.tsx';
import { UnloadedPage } from '../../components/layout/unloaded-page.tsx';
import { LIST } from './fields.ts';
import { EndpointForm } from './form.tsx';

export function NewEndpointPage() {
  return (
    <Page title="New endpoint">
      <EndpointForm endpoint={null} />
    </Page>
  );
}

export function EditEndpointPage() {
  const id = useRoute().params.id ?? '';
  const { data, error, reload } = useLoad(
    (signal) => call('GET /v1/endpoints/{endpoint_id}', { path: { endpoint_id: id }, signal }),
    [id],
  );
  if (!data) return <UnloadedPage title="Endpoint" error={error} retry={reload} list={LIST} />;
  return (
    <Page title={`Edit ${data.name}`}>
      <EndpointForm key={data.id} endpoint={data} />
    </Page>
  );
}
