import { useEffect, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { Field } from '../components/field.tsx';
import { Form } from '../components/form.tsx';
import { Icon } from '../components/icon.tsx';
import { Page } from '../components/page.tsx';
import { useSignIn } from '../session.tsx';

/** Asks for an administrator's key, then opens the requested page. */
export function SignInPage() {
  const { query, route } = useLocation();
  const { signedIn, signIn } = useSignIn();
  const [apiKey, setApiKey] = useState('');
  const target = query.return;

  useEffect(() => {
    // Opens pages of the console only, so a crafted link cannot redirect elsewhere.
    if (signedIn) route(target?.startsWith('/console/') ? target : '/console/transfers', true);
  }, [signedIn, target, route]);

  return (
    <main class="sign-in">
      <p class="brand">
        <Icon name="brand" /> Waybill
      </p>
      <Page title="Sign in">
        {target && target !== '/console' && <p class="muted">Sign in to continue.</p>}
        <Form submit="Sign in" onSubmit={() => signIn(apiKey)} fields={['api_key']}>
          {(errors) => (
            <Field
              label="API key"
              hint="A key with the scope admin. It starts with wb_."
              error={errors.api_key}
            >
              <input
                type="password"
                name="api_key"
                autoComplete="current-password"
                spellcheck={false}
                value={apiKey}
                onInput={(event) => setApiKey(event.currentTarget.value)}
              />
            </Field>
          )}
        </Form>
        <details>
          <summary>No key yet?</summary>
          <p>Run this on the machine that runs Waybill:</p>
          <pre>
            <code>waybill keys create --name console --scopes admin</code>
          </pre>
        </details>
      </Page>
    </main>
  );
}
