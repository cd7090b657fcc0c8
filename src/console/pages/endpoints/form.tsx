import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call, RequestFailed } from '../../api/client.ts';
import type { Endpoint, EndpointRequestInput, EndpointUpdateInput } from '../../api/operations.ts';
import { Field } from '../../components/field.tsx';
import { Form } from '../../components/form.tsx';
import { useToast } from '../../components/toast.tsx';
import { FieldInput } from './field-input.tsx';
import { beginWith, COMMON, type EndpointField, PROTOCOLS, type Protocol, type SignIn, toBody, type Values } from './fields.ts';
import { TestPanel } from './test-panel.tsx';
import { useEndpointTest } from './use-endpoint-test.ts';

/** Configures an endpoint, or changes one: it can be tested as it would be, before it is saved. */
export function EndpointForm({ endpoint }: { endpoint: Endpoint | null }) {
  const { route } = useLocation();
  const say = useToast();
  const test = useEndpointTest();
  const [name, setName] = useState(endpoint?.name ?? '');
  const [protocol, setProtocol] = useState<Protocol>(endpoint?.protocol ?? 'sftp');
  const [signIn, setSignIn] = useState<SignIn>(endpoint?.has_credentials ?? 'password');
  const [replacing, setReplacing] = useState(endpoint === null);
  const { server, signIn: ways, options } = PROTOCOLS[protocol];
  const [values, setValues] = useState<Values>(() => beginWith([...server, ...options, ...COMMON], endpoint));
  const settings = [...server, ...options, ...COMMON];
  const secrets = replacing ? (ways[signIn]?.fields ?? []) : [];

  function choose(next: Protocol): void {
    const { server, options, signIn } = PROTOCOLS[next];
    setProtocol(next);
    setSignIn(Object.keys(signIn)[0] as SignIn);
    setValues((before) => ({ ...beginWith([...server, ...options, ...COMMON], null), ...pick(before, ['host', 'username']) }));
  }

  const bodyOf = (values: Values) => ({ name, protocol, ...toBody([...settings, ...secrets], values) }) as unknown;

  async function send(pressed: string): Promise<void> {
    try {
      if (pressed === 'test') return await test.run(endpoint?.id ?? null, bodyOf(values));
      const saved = await save(endpoint, bodyOf(values));
      say(`${saved.name} is saved`);
      route(`/console/settings/endpoints/${saved.id}`);
    } catch (error) {
      // Credentials that are kept would go to another server: they are asked for.
      const asked =
        error instanceof RequestFailed && Object.values(ways).some(({ fields }) => fields.some((field) => field.name in error.fields));
      if (asked) setReplacing(true);
      throw error;
    }
  }

  const shown = [{ name: 'name' }, ...settings, ...secrets].map(({ name }) => name);
  const accept = async (fingerprint: string) => {
    const trusting = { ...values, host_key_sha256: fingerprint };
    setValues(trusting);
    await test.run(endpoint?.id ?? null, bodyOf(trusting));
  };
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
          fields={[...shown, 'password']}
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
              <div class="field-row">
                <Field
                  label="Name"
                  hint={endpoint ? 'It stays: transfers name the endpoint by it' : 'Transfers name it: sftp://NAME/path'}
                  error={errors.name}
                >
                  <input
                    autoCapitalize="none"
                    autoComplete="off"
                    spellcheck={false}
                    readOnly={endpoint !== null}
                    placeholder="bank"
                    value={name}
                    onInput={({ currentTarget }) => setName(currentTarget.value)}
                  />
                </Field>
                <Field label="Protocol">
                  <select
                    value={protocol}
                    disabled={endpoint !== null}
                    onChange={({ currentTarget }) => choose(currentTarget.value as Protocol)}
                  >
                    {Object.entries(PROTOCOLS).map(([key, { label }]) => (
                      <option key={key} value={key}>
                        {label}
                      </option>
                    ))}
                  </select>
                </Field>
              </div>
              <fieldset>
                <legend>Server</legend>
                <div class="field-row">{draw(server, errors)}</div>
              </fieldset>
              <fieldset>
                <legend>Credentials</legend>
                {replacing ? (
                  <>
                    {Object.keys(ways).length > 1 && (
                      <Field label="Sign in with">
                        <select value={signIn} onChange={({ currentTarget }) => setSignIn(currentTarget.value as SignIn)}>
                          {Object.entries(ways).map(([way, { label }]) => (
                            <option key={way} value={way}>
                              {label}
                            </option>
                          ))}
                        </select>
                      </Field>
                    )}
                    <div class="field-row">{draw(secrets, atFirst(errors, secrets))}</div>
                    {endpoint && (
                      <div class="actions">
                        <button type="button" onClick={() => setReplacing(false)}>
                          Keep the credentials
                        </button>
                      </div>
                    )}
                  </>
                ) : (
                  <>
                    <p>{ways[signIn]?.label}: what was saved is never shown.</p>
                    <div class="actions">
                      <button type="button" onClick={() => setReplacing(true)}>
                        Replace credentials
                      </button>
                    </div>
                  </>
                )}
              </fieldset>
              <details class="more" open={[...options, ...COMMON].some(({ name }) => name in errors) || undefined}>
                <summary>More options</summary>
                <div class="field-row">{draw([...options, ...COMMON], errors)}</div>
              </details>
            </>
          )}
        </Form>
      </section>
      {test.state !== 'none' && <TestPanel test={test} pinned={values.host_key_sha256 || null} onAccept={accept} />}
    </>
  );
}

function save(endpoint: Endpoint | null, body: unknown): Promise<Endpoint> {
  if (endpoint === null) return call('POST /v1/endpoints', { body: body as EndpointRequestInput });
  return call('PUT /v1/endpoints/{endpoint_id}', { path: { endpoint_id: endpoint.id }, body: body as EndpointUpdateInput });
}

function pick(values: Values, names: string[]): Values {
  return Object.fromEntries(names.flatMap((name) => (values[name] ? [[name, values[name]]] : [])));
}

/** That credentials are missing is said of one kind; it stands at the first field of the kind that is chosen. */
function atFirst(errors: Record<string, string>, secrets: EndpointField[]): Record<string, string> {
  const [first] = secrets;
  const missing = errors.password ?? errors.account_key ?? errors.secret_access_key;
  return first && missing && !secrets.some(({ name }) => name in errors) ? { ...errors, [first.name]: missing } : errors;
}
