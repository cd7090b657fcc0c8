import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { useRoute } from 'preact-iso/router';
import type { AcceptedHostKey, Endpoint } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import type { EndpointField } from '../../api/protocols.ts';
import { type Loaded, useLoad } from '../../api/use-load.ts';
import { ActionButton } from '../../components/dialogs/action-button.tsx';
import { ConfirmButton } from '../../components/dialogs/confirm.tsx';
import { LoadState } from '../../components/feedback/problem.tsx';
import { useToast } from '../../components/feedback/toast.tsx';
import { Page } from '../../components/layout/page.tsx';
import { UnloadedPage } from '../../components/layout/unloaded-page.tsx';
import { useOpen } from '../../components/layout/use-open.ts';
import { CopyableId } from '../../components/values/copyable-id.tsx';
import { EndpointStates, hostKeysOf } from '../../components/values/endpoint-health.tsx';
import { Facts } from '../../components/values/facts.tsx';
import { MarkedText } from '../../components/values/marked-text.tsx';
import { Time } from '../../components/values/time.tsx';
import { May } from '../../session.tsx';
import { SubjectHistory } from '../audit/subject-history.tsx';
import { BandwidthCard } from './bandwidth-card.tsx';
import { COMMON, LIST, PROTOCOLS, serverOf } from './fields.ts';
import { acceptedKeys, HostKeys, NewHostKeys } from './host-keys.tsx';
import { Outages } from './outages.tsx';
import { TestPanel } from './test-panel.tsx';
import { EndpointTransfers } from './transfers.tsx';
import { useEndpointTest } from './use-endpoint-test.ts';
import { ViaFacts, viaOf } from './via.tsx';

const LOOK_MS = 10_000;
/** A new endpoint is probed within a second or two. */
const FIRST_LOOK_MS = 1_000;

/** Shows an endpoint: its health, its settings and a test. */
export function EndpointPage() {
  const id = useRoute().params.id ?? '';
  const loaded = useLoad(
    (signal) => call('GET /v1/endpoints/{endpoint_id}', { path: { endpoint_id: id }, signal }),
    [id],
    (shown) => (shown && shown.health === null ? FIRST_LOOK_MS : LOOK_MS),
  );
  const { data: endpoint, error, reload, set } = loaded;
  const test = useEndpointTest();
  const path = { endpoint_id: id };

  // The test may have found a change that the page does not show yet.
  useEffect(() => {
    if (test.state === 'ended') reload();
  }, [test.state, reload]);

  async function accept(host_key_sha256: string): Promise<void> {
    set(
      await call('POST /v1/endpoints/{endpoint_id}/accept-host-key', {
        path,
        body: { host_key_sha256 },
      }),
    );
  }

  async function acceptAndTest(host_key_sha256: string): Promise<void> {
    await accept(host_key_sha256);
    await test.run(id, undefined);
  }

  if (!endpoint) return <UnloadedPage title="Endpoint" error={error} retry={reload} list={LIST} />;
  return (
    <Page
      title={endpoint.name}
      subtitle={
        <>
          <EndpointStates endpoint={endpoint} />
          <span class="mono">{serverOf(endpoint)}</span>
          <CopyableId id={endpoint.id} what="endpoint id" />
        </>
      }
      actions={<Actions endpoint={endpoint} loaded={loaded} />}
    >
      <LoadState of={{ data: endpoint, error, reload }} />
      <HealthCard endpoint={endpoint} />
      <NewHostKeys endpoint={endpoint} onAccept={accept} />
      <May scope="operate">
        <TestPanel test={test} accepted={acceptedKeys(endpoint)} onAccept={acceptAndTest}>
          <p>Signs in, then writes, reads and removes a probe file of 4 MiB.</p>
          <div class="actions">
            <ActionButton
              disabled={test.state === 'running'}
              onAction={() => test.run(id, undefined)}
            >
              Test
            </ActionButton>
          </div>
        </TestPanel>
      </May>
      <BandwidthCard endpoint={endpoint} />
      <EndpointTransfers endpoint={endpoint} />
      <SubjectHistory kind="endpoint" id={endpoint.id} stamp={endpoint.revision}>
        {(events, all) => (
          <Outages events={events} all={all} isDown={endpoint.unreachable_since !== null} />
        )}
      </SubjectHistory>
      <Configuration endpoint={endpoint} />
    </Page>
  );
}

function Actions({
  endpoint: { id, name, paused },
  loaded,
}: {
  endpoint: Endpoint;
  loaded: Loaded<Endpoint>;
}) {
  const open = useOpen();
  const say = useToast();
  const path = { endpoint_id: id };
  async function turn(): Promise<void> {
    loaded.set(
      await (paused
        ? call('POST /v1/endpoints/{endpoint_id}/resume', { path })
        : call('POST /v1/endpoints/{endpoint_id}/pause', { path })),
    );
    say(`${name} is ${paused ? 'resumed' : 'paused'}`);
  }
  async function remove(): Promise<void> {
    await call('DELETE /v1/endpoints/{endpoint_id}', { path });
    say(`${name} is removed`);
    open('/console/settings/endpoints');
  }
  return (
    <>
      <May scope="admin">
        <a class="button" href={`/console/settings/endpoints/${id}/edit`}>
          Edit
        </a>
      </May>
      <May scope="operate">
        <ActionButton onAction={turn}>{paused ? 'Resume' : 'Pause'}</ActionButton>
      </May>
      <May scope="admin">
        <ConfirmButton label="Remove" title={`Remove ${name}?`} onConfirm={remove}>
          <p>
            Its credentials are destroyed, and no new transfer can name it. The files on the server
            stay as they are.
          </p>
        </ConfirmButton>
      </May>
    </>
  );
}

function HealthCard({ endpoint }: { endpoint: Endpoint }) {
  const { health, unreachable_since, paused } = endpoint;
  const fingerprintLabel =
    hostKeysOf(endpoint) === undefined ? 'Certificate last shown' : 'Host key last shown';
  return (
    <section class="card" aria-label="Health">
      <h2>Health</h2>
      {paused && (
        <p class="notice warning">
          It is paused: no new transfer starts on it. Running transfers continue.
        </p>
      )}
      {health?.error && (
        <div class="notice danger">
          <p>
            <strong>{health.error.message}</strong>
          </p>
          <p>
            <MarkedText>{health.error.advice}</MarkedText>
          </p>
        </div>
      )}
      {health ? (
        <>
          <Facts
            of={{
              'Unreachable since': unreachable_since ? <Time at={unreachable_since} /> : undefined,
              'First error': health.error_since ? <Time at={health.error_since} /> : undefined,
              'Last reached': <Time at={health.last_success_at} />,
              'Last probe': <Time at={health.last_probe_at} />,
              // Of a probe that failed it is the time of a refusal, not of an answer. A server that
              // rejects the sign-in has answered.
              'Answered in':
                (health.error && health.error.code !== 'auth_failed') || health.latency_ms === null
                  ? null
                  : `${health.latency_ms} ms`,
              'Failures in a row': health.failures_in_row,
              [fingerprintLabel]: health.fingerprint && <code>{health.fingerprint}</code>,
            }}
          />
          <p class="muted">
            A probe does not sign in, so it does not show whether the credentials are right. A test
            does.
          </p>
        </>
      ) : (
        <p class="muted">Not tried yet. Waybill probes it every minute. Test it to know at once.</p>
      )}
    </section>
  );
}

function Configuration({ endpoint }: { endpoint: Endpoint }) {
  const { label, server, signIn, options } = PROTOCOLS[endpoint.protocol];
  const saved = endpoint as unknown as Record<string, unknown>;
  const via = viaOf(endpoint);
  const facts = [...server, ...options, ...COMMON].map((field) => [
    field.label,
    shown(field, saved[field.name]),
  ]);
  return (
    <section class="card">
      <h2>Configuration</h2>
      <Facts
        of={{
          Protocol: label,
          'Connects through': via ? <ViaFacts via={via} /> : undefined,
          'Signs in with': signIn[endpoint.has_credentials]?.label,
          ...Object.fromEntries(facts),
          Configured: <Time at={endpoint.configured_at} />,
        }}
      />
    </section>
  );
}

function shown({ name, kind }: EndpointField, value: unknown): ComponentChildren {
  if (name === 'accounts' && value === null) return 'All of them';
  if (kind === 'host-keys') return <HostKeys keys={value as AcceptedHostKey[]} />;
  if (value === null || value === '') return null;
  if (typeof value === 'boolean') return value ? 'Yes' : 'No';
  if (Array.isArray(value)) return value.join(', ');
  return kind === 'lines' ? 'Given' : String(value);
}
