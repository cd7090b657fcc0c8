import { useEffect, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call, urlOf } from '../api/client.ts';
import { useLoad } from '../api/use-load.ts';
import { Dialog } from '../components/dialogs/dialog.tsx';
import { Field } from '../components/forms/field.tsx';
import { Form } from '../components/forms/form.tsx';
import { Page } from '../components/layout/page.tsx';
import { Icon } from '../components/values/icon.tsx';
import { useSignIn } from '../session.tsx';

/** Why a sign-in at the identity provider failed, by the code in the address. */
const FAILURES: Record<string, string> = {
  unreachable: 'The identity provider does not answer. Sign in with an API key meanwhile.',
  denied: 'The identity provider denied the sign-in.',
  rejected: 'The identity provider rejected the sign-in. The log of the service says why.',
  expired: 'The sign-in took too long, or began in another window. Try again.',
  no_role: 'You have no role here. Ask an administrator for one.',
};

/** Asks for a key, or sends to the identity provider. Then opens the requested page. */
export function SignInPage() {
  const { query, route } = useLocation();
  const { signedIn, ended, resume } = useSignIn();
  const target = query.return;

  const failure = query.error === undefined ? null : (FAILURES[query.error] ?? FAILURES.rejected);
  const back = query.signed_in !== undefined;

  useEffect(() => {
    // Without a session, the answer leaves the sign-in page as it is.
    if (back) resume().catch(() => undefined);
  }, [back, resume]);
  useEffect(() => {
    // Opens pages of the console only, so a crafted link cannot redirect elsewhere.
    if (signedIn) route(target?.startsWith('/console/') ? target : '/console', true);
  }, [signedIn, target, route]);

  return (
    <main class="sign-in">
      <p class="brand">
        <Icon name="brand" /> Waybill
      </p>
      <Page title="Sign in">
        {(failure ?? ended) && (
          <p class="notice warning" role="alert">
            {failure ?? ended}
          </p>
        )}
        {target && target !== '/console' && <p class="muted">Sign in to continue.</p>}
        <Ways target={target} />
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

/**
 * Asks to sign in again over a page with unsent input. At the identity provider, another tab signs
 * in, which this one notices.
 */
export function SignInAgain() {
  const { ended, leave } = useSignIn();
  return (
    <Dialog title="Sign in again" cover>
      <p class="notice warning">
        {ended ?? 'The session has ended'}. What you have not sent is still on the page.
      </p>
      <Ways elsewhere />
      <button type="button" class="ghost" onClick={leave}>
        Discard it
      </button>
    </Dialog>
  );
}

interface WaysProps {
  /** The page to open afterwards. */
  target?: string | undefined;
  /** Opens the identity provider in another tab. */
  elsewhere?: boolean;
}

/** The identity provider, if there is one, or a key. */
function Ways({ target, elsewhere = false }: WaysProps) {
  const { signIn } = useSignIn();
  const { data: options } = useLoad((signal) => call('GET /v1/session/options', { signal }), []);
  const provider = options?.identity_provider;
  const [apiKey, setApiKey] = useState('');
  return (
    <>
      {provider && (
        <>
          <a
            class="button primary"
            href={urlOf('/v1/session/oidc', { query: { return: target } })}
            target={elsewhere ? '_blank' : undefined}
          >
            Sign in with {provider}
          </a>
          <p class="muted">Or use a key:</p>
        </>
      )}
      <Form submit="Sign in" onSubmit={() => signIn(apiKey)} fields={['api_key']}>
        {(errors) => (
          <Field
            label="API key"
            hint="A key with a role, or with the scope admin. It starts with wb_."
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
    </>
  );
}
