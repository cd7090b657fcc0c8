import { useState } from 'preact/hooks';
import type { Endpoint, EndpointRequest, EndpointUpdate } from '../../api/api-types.ts';
import { call, invalidField, RequestFailed } from '../../api/client.ts';
import type { EndpointField } from '../../api/protocols.ts';
import { useIdempotencyKey } from '../../api/use-idempotency-key.ts';
import { useToast } from '../../components/feedback/toast.tsx';
import { Field } from '../../components/forms/field.tsx';
import { Form } from '../../components/forms/form.tsx';
import { useOpen } from '../../components/layout/use-open.ts';
import { BandwidthFields, bandwidthNames, bandwidthOf, draftOf } from './bandwidth-fields.tsx';
import { Credentials } from './credentials.tsx';
import { FieldInput } from './field-input.tsx';
import {
  beginWith,
  COMMON,
  fingerprintsIn,
  firstSignIn,
  nameField,
  PROTOCOLS,
  type Protocol,
  type SignIn,
  secretsOf,
  settingsOf,
  toBody,
  type Values,
} from './fields.ts';
import { TestPanel } from './test-panel.tsx';
import { useEndpointTest } from './use-endpoint-test.ts';
import { Via, viaFieldsOf } from './via.tsx';

const FIRST = Object.keys(PROTOCOLS)[0] as Protocol;

/** Creates or changes an endpoint. The draft can be tested before it is saved. */
export function EndpointForm({ endpoint }: { endpoint: Endpoint | null }) {
  const open = useOpen();
  const say = useToast();
  const test = useEndpointTest();
  const [protocol, setProtocol] = useState<Protocol>(endpoint?.protocol ?? FIRST);
  const [signIn, setSignIn] = useState<SignIn>(endpoint?.has_credentials ?? firstSignIn(protocol));
  const [asked, setAsked] = useState(endpoint === null);
  const [values, setValues] = useState<Values>(() => beginWith(settingsOf(protocol), endpoint));
  const [bandwidth, setBandwidth] = useState(() => draftOf(endpoint?.bandwidth ?? null));
  const { server, signIn: ways, options } = PROTOCOLS[protocol];
  const secrets = asked ? (ways[signIn]?.fields ?? []) : [];
  const hop = viaFieldsOf(values, asked);
  const fields = [...settingsOf(protocol), ...hop, ...secrets];
  const bodyOf = (values: Values): unknown => ({
    protocol,
    ...toBody(fields, values),
    bandwidth: bandwidthOf(bandwidth),
  });

  const idempotencyKey = useIdempotencyKey(bodyOf(values));

  /** Keeps the values of fields that both protocols have. */
  function chooseProtocol(next: Protocol): void {
    const { host = '', username = '', name = '' } = values;
    setProtocol(next);
    setSignIn(firstSignIn(next));
    setValues({ ...beginWith(settingsOf(next), null), host, username, name });
  }

  /** An endpoint that names no host key keeps those of its server. */
  function refuseNoKeys(): void {
    if (endpoint === null || fingerprintsIn(values).length > 0) return;
    const before = beginWith(settingsOf(protocol), endpoint);
    const isSameServer = values.host === before.host && values.port === before.port;
    if (isSameServer && fingerprintsIn(before).length > 0)
      throw invalidField(
        'host_keys',
        'Enter the key that takes the place of those accepted so far',
      );
  }

  async function send(pressed: string): Promise<void> {
    refuseNoKeys();
    try {
      if (pressed === 'test') return await test.run(endpoint?.id ?? null, bodyOf(values));
      const saved = await save(endpoint, bodyOf(values), idempotencyKey);
      say(`${saved.name} is saved`);
      open(`/console/settings/endpoints/${saved.id}`);
    } catch (error) {
      // Saved credentials would go to another server, so the form asks for new ones.
      if (error instanceof RequestFailed && missingSecret(protocol, error.fields)) setAsked(true);
      throw error;
    }
  }

  async function acceptHostKey(host_keys: string): Promise<void> {
    const trusting = { ...values, host_keys };
    setValues(trusting);
    await test.run(endpoint?.id ?? null, bodyOf(trusting));
  }

  const draw = (fields: readonly EndpointField[], errors: Record<string, string>) =>
    fields.map((field) => (
      <FieldInput
        key={field.name}
        field={field}
        value={values[field.name] ?? ''}
        error={errors[field.name]}
        onChange={(value) => setValues((before) => ({ ...before, [field.name]: value }))}
      />
    ));

  return (
    <>
      <section class="card">
        <Form
          submit={endpoint ? 'Save changes' : 'Create endpoint'}
          onSubmit={send}
          fields={[
            ...fields.map(({ name }) => name),
            ...secretsOf(protocol),
            ...bandwidthNames(bandwidth),
          ]}
          beside={
            <>
              <button type="submit" value="test" aria-busy={test.state === 'running'}>
                Test
              </button>
              <a
                class="button"
                href={`/console/settings/endpoints${endpoint ? `/${endpoint.id}` : ''}`}
              >
                Cancel
              </a>
            </>
          }
        >
          {(errors) => (
            <>
              {/* Transfers name the endpoint, so an existing one keeps its name and protocol. */}
              {!endpoint && (
                <div class="field-row">
                  {draw([nameField(protocol)], errors)}
                  <Field label="Protocol">
                    <select
                      value={protocol}
                      onChange={({ currentTarget }) =>
                        chooseProtocol(currentTarget.value as Protocol)
                      }
                    >
                      {Object.entries(PROTOCOLS).map(([key, { label }]) => (
                        <option key={key} value={key}>
                          {label}
                        </option>
                      ))}
                    </select>
                  </Field>
                </div>
              )}
              <fieldset>
                <legend>Server</legend>
                <div class="field-row">{draw(server, errors)}</div>
              </fieldset>
              <Via
                protocol={protocol}
                values={values}
                error={errors['via.type']}
                onType={(type) => setValues((before) => ({ ...before, 'via.type': type }))}
              >
                {draw(hop.slice(1), errors)}
              </Via>
              <Credentials
                protocol={protocol}
                signIn={signIn}
                onSignIn={setSignIn}
                saved={endpoint?.has_credentials ?? null}
                asked={asked}
                onAsk={setAsked}
              >
                {draw(secrets, atFirst(errors, secrets, missingSecret(protocol, errors)))}
              </Credentials>
              <details
                class="more"
                open={
                  [
                    ...[...options, ...COMMON].map(({ name }) => name),
                    ...bandwidthNames(bandwidth),
                  ].some((name) => name in errors) || undefined
                }
              >
                <summary>More options</summary>
                <div class="field-row">{draw([...options, ...COMMON], errors)}</div>
                <BandwidthFields draft={bandwidth} errors={errors} onChange={setBandwidth} />
              </details>
            </>
          )}
        </Form>
      </section>
      {test.state !== 'none' && (
        <TestPanel
          test={test}
          accepted={fingerprintsIn(values)}
          onAccept={acceptHostKey}
          outdated={test.of !== JSON.stringify(bodyOf(values))}
        />
      )}
    </>
  );
}

function save(endpoint: Endpoint | null, body: unknown, idempotencyKey: string): Promise<Endpoint> {
  if (endpoint === null)
    return call('POST /v1/endpoints', { body: body as EndpointRequest, idempotencyKey });
  return call('PUT /v1/endpoints/{endpoint_id}', {
    path: { endpoint_id: endpoint.id },
    body: body as EndpointUpdate,
    revision: endpoint.revision,
  });
}

/**
 * Returns the error of a missing secret: the service names one if the endpoint has no credentials.
 */
function missingSecret(protocol: Protocol, errors: Record<string, string>): string | undefined {
  return secretsOf(protocol)
    .map((name) => errors[name])
    .find(Boolean);
}

/** Shows the error of missing credentials at the first field of the chosen sign-in. */
function atFirst(
  errors: Record<string, string>,
  [first, ...others]: readonly EndpointField[],
  missing: string | undefined,
): Record<string, string> {
  if (!first || !missing || [first, ...others].some(({ name }) => name in errors)) return errors;
  return { ...errors, [first.name]: missing };
}
