import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call, RequestFailed } from '../../api/client.ts';
import type { Endpoint, EndpointRequestInput, EndpointUpdateInput } from '../../api/operations.ts';
import { Field } from '../../components/field.tsx';
import { Form } from '../../components/form.tsx';
import { useToast } from '../../components/toast.tsx';
import { Credentials } from './credentials.tsx';
import { FieldInput } from './field-input.tsx';
import {
  beginWith,
  COMMON,
  type EndpointField,
  NAME,
  PROTOCOLS,
  type Protocol,
  type SignIn,
  settingsOf,
  toBody,
  type Values,
} from './fields.ts';
import { TestPanel } from './test-panel.tsx';
import { useEndpointTest } from './use-endpoint-test.ts';

/** Configures an endpoint, or changes one: it can be tested as it would be, before it is saved. */
export function EndpointForm({ endpoint }: { endpoint: Endpoint | null }) {
  const { route } = useLocation();
  const say = useToast();
  const test = useEndpointTest();
  const [protocol, setProtocol] = useState<Protocol>(endpoint?.protocol ?? 'sftp');
  const [signIn, setSignIn] = useState<SignIn>(endpoint?.has_credentials ?? 'password');
  const [asked, setAsked] = useState(endpoint === null);
  const [values, setValues] = useState<Values>(() => beginWith(settingsOf(protocol), endpoint));
  const { server, signIn: ways, options } = PROTOCOLS[protocol];
  const secrets = asked ? (ways[signIn]?.fields ?? []) : [];
  const fields = [...settingsOf(protocol), ...secrets];
  const bodyOf = (values: Values): unknown => ({ protocol, ...toBody(fields, values) });

  /** What both protocols have stays. */
  function chooseProtocol(next: Protocol): void {
    const { host = '', username = '', name = '' } = values;
    setProtocol(next);
    setSignIn(Object.keys(PROTOCOLS[next].signIn)[0] as SignIn);
    setValues({ ...beginWith(settingsOf(next), null), host, username, name });
  }

  async function send(pressed: string): Promise<void> {
    try {
      if (pressed === 'test') return await test.run(endpoint?.id ?? null, bodyOf(values));
      const saved = await save(endpoint, bodyOf(values));
      say(`${saved.name} is saved`);
      route(`/console/settings/endpoints/${saved.id}`);
    } catch (error) {
      // Credentials that are kept would go to another server: they are asked for.
      if (error instanceof RequestFailed && missingSecret(error.fields)) setAsked(true);
      throw error;
    }
  }

  async function acceptHostKey(host_key_sha256: string): Promise<void> {
    const trusting = { ...values, host_key_sha256 };
    setValues(trusting);
    await test.run(endpoint?.id ?? null, bodyOf(trusting));
  }

  const draw = (fields: EndpointField[], errors: Record<string, string>) =>
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
          submit="Save"
          onSubmit={send}
          fields={[...fields.map(({ name }) => name), ...SECRETS]}
          beside={
            <>
              <button type="submit" value="test" aria-busy={test.state === 'running'}>
                Test
              </button>
              <a class="button" href={`/console/settings/endpoints${endpoint ? `/${endpoint.id}` : ''}`}>
                Cancel
              </a>
            </>
          }
        >
          {(errors) => (
            <>
              {/* Transfers name an endpoint: its name stays, and what they mean by it. */}
              {!endpoint && (
                <div class="field-row">
                  {draw([NAME], errors)}
                  <Field label="Protocol">
                    <select value={protocol} onChange={({ currentTarget }) => chooseProtocol(currentTarget.value as Protocol)}>
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
              <Credentials
                protocol={protocol}
                signIn={signIn}
                onSignIn={setSignIn}
                saved={endpoint?.has_credentials ?? null}
                asked={asked}
                onAsk={setAsked}
              >
                {draw(secrets, atFirst(errors, secrets))}
              </Credentials>
              <details class="more" open={[...options, ...COMMON].some(({ name }) => name in errors) || undefined}>
                <summary>More options</summary>
                <div class="field-row">{draw([...options, ...COMMON], errors)}</div>
              </details>
            </>
          )}
        </Form>
      </section>
      {test.state !== 'none' && <TestPanel test={test} pinned={values.host_key_sha256 || null} onAccept={acceptHostKey} />}
    </>
  );
}

function save(endpoint: Endpoint | null, body: unknown): Promise<Endpoint> {
  if (endpoint === null) return call('POST /v1/endpoints', { body: body as EndpointRequestInput });
  return call('PUT /v1/endpoints/{endpoint_id}', { path: { endpoint_id: endpoint.id }, body: body as EndpointUpdateInput });
}

/** The service names one of these where an endpoint has no credentials, whatever kind it is to have. */
const SECRETS = ['password', 'account_key', 'secret_access_key'];

function missingSecret(errors: Record<string, string>): string | undefined {
  return SECRETS.map((name) => errors[name]).find(Boolean);
}

/** That credentials are missing stands at the first field of the kind that is chosen. */
function atFirst(errors: Record<string, string>, [first, ...others]: EndpointField[]): Record<string, string> {
  const missing = missingSecret(errors);
  if (!first || !missing || [first, ...others].some(({ name }) => name in errors)) return errors;
  return { ...errors, [first.name]: missing };
}
