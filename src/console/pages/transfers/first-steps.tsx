import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { Empty } from '../../components/empty.tsx';

/** What to do next where nothing has been moved yet. */
export function FirstSteps() {
  const { data } = useLoad((signal) => call('GET /v1/endpoints', { signal }), []);
  const servers = data?.data.length ?? 0;
  return (
    <Empty title="Nothing has been transferred yet">
      <ol class="steps">
        <li>
          <a href="/console/settings/endpoints">Add the servers</a> that files come from and go to.
          {servers > 0 && ` There ${servers === 1 ? 'is 1' : `are ${servers}`} so far.`}
        </li>
        <li>
          <a href="/console/transfers/new">Create the first transfer</a>, and watch it move.
        </li>
        <li>
          <a href="/console/settings/api-keys">Create an API key</a> for each program that is to create transfers by itself.
        </li>
        <li>
          <a href="/console/webhooks">Register a webhook</a> for whoever wants to be told when they end.
        </li>
      </ol>
      <p>
        How the API is used: <a href="/docs">documentation</a>
      </p>
    </Empty>
  );
}
