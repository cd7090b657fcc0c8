import { useRoute } from 'preact-iso/router';
import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { Page } from '../../components/page.tsx';
import { ProblemNotice } from '../../components/problem.tsx';
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
  return (
    <Page title={data ? `Change ${data.name}` : 'Endpoint'}>
      {error && <ProblemNotice error={error} retry={reload} />}
      {data && <EndpointForm key={data.id} endpoint={data} />}
    </Page>
  );
}
