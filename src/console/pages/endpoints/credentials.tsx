import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import { Field } from '../../components/forms/field.tsx';
import { useNextFocus } from '../../components/forms/use-next-focus.ts';
import { PROTOCOLS, type Protocol, type SignIn } from './fields.ts';

interface CredentialsProps {
  protocol: Protocol;
  signIn: SignIn;
  onSignIn: (signIn: SignIn) => void;
  /** The endpoint's sign-in. Null for a new endpoint. */
  saved: SignIn | null;
  /** True if the form asks for new credentials. */
  asked: boolean;
  onAsk: (asked: boolean) => void;
  /** The fields of the chosen sign-in. */
  children: ComponentChildren;
}

/**
 * Asks for credentials if there are none or the user replaces them. Never shows saved credentials.
 */
export function Credentials({
  protocol,
  signIn,
  onSignIn,
  saved,
  asked,
  onAsk,
  children,
}: CredentialsProps) {
  const ways = PROTOCOLS[protocol].signIn;
  const fields = useRef<HTMLFieldSetElement>(null);
  const focusNext = useNextFocus();
  /** The pressed button goes with what was there. */
  function ask(toAsk: boolean): void {
    focusNext(() => fields.current?.querySelector('input, select, textarea, button'));
    onAsk(toAsk);
  }
  if (saved && !asked) {
    return (
      <fieldset ref={fields}>
        <legend>Credentials</legend>
        <p>{ways[saved]?.label}: the saved value is never shown.</p>
        <div class="actions">
          <button type="button" onClick={() => ask(true)}>
            Replace credentials
          </button>
        </div>
      </fieldset>
    );
  }
  return (
    <fieldset ref={fields}>
      <legend>Credentials</legend>
      {Object.keys(ways).length > 1 && (
        <Field label="Sign in with">
          <select
            value={signIn}
            onChange={({ currentTarget }) => onSignIn(currentTarget.value as SignIn)}
          >
            {Object.entries(ways).map(([way, { label }]) => (
              <option key={way} value={way}>
                {label}
              </option>
            ))}
          </select>
        </Field>
      )}
      <div class="field-row">{children}</div>
      {saved && (
        <div class="actions">
          <button type="button" onClick={() => ask(false)}>
            Keep credentials
          </button>
        </div>
      )}
    </fieldset>
  );
}
