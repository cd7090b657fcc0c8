import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { Empty } from '../../components/feedback/empty.tsx';
import { May, useSession } from '../../session.tsx';

/** The first steps in an account without transfers, or an installation without endpoints. */
export function FirstSteps({ title = 'No transfers yet' }: { title?: string }) {
  const { data } = useLoad((signal) => call('GET /v1/endpoints', { signal }), []);
  const servers = data?.data.length ?? 0;
  const { scopes } = useSession().session;
  if (!scopes.includes('transfers:write'))
    return (
      <Empty title={title}>
        <p>Transfers appear here as soon as a program or an operator creates them.</p>
      </Empty>
    );
  return (
    <Empty title={title}>
      <ol class="steps">
        <May scope="admin">
          <li>
            <a href="/console/settings/endpoints">Add endpoints</a>, the servers that files come
            from and go to.{servers > 0 && ` You have ${servers}.`}
          </li>
        </May>
        <li>
          <a href="/console/transfers/new">Create a transfer</a>.
        </li>
        <May scope="admin">
          <li>
            <a href="/console/settings/api-keys">Create an API key</a> for each program that creates
            transfers.
          </li>
        </May>
        <li>
          <a href="/console/webhooks">Register a webhook</a> to be notified when transfers end.
        </li>
      </ol>
      <p>
        <a href="/docs">API documentation</a>
      </p>
    </Empty>
  );
}
