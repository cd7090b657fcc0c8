import type { ComponentChildren } from 'preact';
import { Field } from '../../components/field.tsx';
import { PROTOCOLS, type Protocol, type SignIn } from './fields.ts';

interface CredentialsProps {
  protocol: Protocol;
  signIn: SignIn;
  onSignIn: (signIn: SignIn) => void;
  /** What the endpoint has; null for a new one. */
  saved: SignIn | null;
  /** New ones are asked for. */
  asked: boolean;
  onAsk: (asked: boolean) => void;
  /** The fields of the way that is chosen. */
  children: ComponentChildren;
}

/** Asks for credentials, where there are none or they are to be replaced. Those that are saved are never shown. */
export function Credentials({ protocol, signIn, onSignIn, saved, asked, onAsk, children }: CredentialsProps) {
  const ways = PROTOCOLS[protocol].signIn;
  if (saved && !asked) {
    return (
      <fieldset>
        <legend>Credentials</legend>
        <p>{ways[saved]?.label}: what was saved is never shown.</p>
        <div class="actions">
          <button type="button" onClick={() => onAsk(true)}>
            Replace credentials
          </button>
        </div>
      </fieldset>
    );
  }
  return (
    <fieldset>
      <legend>Credentials</legend>
      {Object.keys(ways).length > 1 && (
        <Field label="Sign in with">
          <select value={signIn} onChange={({ currentTarget }) => onSignIn(currentTarget.value as SignIn)}>
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
          <button type="button" onClick={() => onAsk(false)}>
            Keep credentials
          </button>
        </div>
      )}
    </fieldset>
  );
}
