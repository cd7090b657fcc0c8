import type { ComponentChildren } from 'preact';
import { ConfirmButton } from '../../components/dialogs/confirm.tsx';
import { MarkedText } from '../../components/values/marked-text.tsx';
import { Status } from '../../components/values/status.tsx';
import { speed } from '../../components/values/units.ts';
import { May } from '../../session.tsx';
import type { EndpointTest, TestStep } from './use-endpoint-test.ts';

const STEPS: Record<TestStep['step'], string> = {
  resolve: 'Look up the address',
  via: 'Connect through the hop',
  connect: 'Connect',
  sign_in: 'Sign in',
  list: 'List the base folder',
  write: 'Write a probe file',
  rename: 'Rename it',
  read: 'Read it back',
  remove: 'Remove it',
};

interface TestPanelProps {
  test: EndpointTest;
  /** The accepted host keys. */
  accepted: string[];
  /** Accepts the host key that the server sent. */
  onAccept: (fingerprint: string) => Promise<unknown>;
  /** The settings have changed since the test began. */
  outdated?: boolean;
  /** Content above the steps. */
  children?: ComponentChildren;
}

/** Shows the steps of a test as they arrive, and what is wrong and how to fix it. */
export function TestPanel({
  test: { state, steps, result },
  accepted,
  onAccept,
  outdated = false,
  children,
}: TestPanelProps) {
  const failed = steps.find(({ ok }) => !ok);
  const isNewKey =
    failed && !failed.ok && failed.step === 'connect' && failed.code === 'host_key_mismatch';
  return (
    <section class="card" aria-label="Test">
      <h2>Test</h2>
      {children}
      {outdated && (
        <p class="notice warning" role="status">
          <span>
            <strong>You have changed the settings since this test.</strong> Test again: what follows
            is about the settings before.
          </span>
        </p>
      )}
      {state !== 'none' && (
        <ol class="test-steps" aria-live="polite">
          {steps.map((step) => (
            <Step key={step.step} step={step} />
          ))}
          {state === 'running' && (
            <li>
              <Status tone="active">Running</Status>
            </li>
          )}
        </ol>
      )}
      {!outdated && result?.ok && (
        <p class="notice" role="status">
          <strong>The endpoint works.</strong> It wrote {speed(result.write_bps)} and read{' '}
          {speed(result.read_bps)}.
        </p>
      )}
      {!outdated && isNewKey && result?.fingerprint && (
        <div class="notice warning" role="status">
          <p>
            <strong>
              {accepted.length === 0
                ? 'No host key is accepted yet.'
                : 'The server shows a host key that is not accepted.'}
            </strong>{' '}
            It shows:
          </p>
          <code>{result.fingerprint}</code>
          <May scope="admin">
            <ConfirmButton
              label="Accept host key"
              kind={accepted.length === 0 ? 'plain' : 'danger'}
              title="Is this the server’s host key?"
              onConfirm={() => onAccept(result.fingerprint as string)}
            >
              <p>
                <code>{result.fingerprint}</code>
              </p>
              {accepted.map((key) => (
                <p key={key}>
                  Accepted so far: <code>{key}</code>
                </p>
              ))}
              {accepted.length > 0 && (
                <p>
                  It takes {accepted.length === 1 ? 'its' : 'their'} place. To accept it beside{' '}
                  {accepted.length === 1 ? 'that one' : 'those'}, add it to the host keys of the
                  endpoint.
                </p>
              )}
              <p>
                Compare it with the one that the server’s administrator names: on the server,{' '}
                <code>ssh-keygen -lf</code> and the host key’s file print it. An attacker between
                you and the server would show another key.
              </p>
            </ConfirmButton>
          </May>
        </div>
      )}
    </section>
  );
}

function Step({ step }: { step: TestStep }) {
  return (
    <li>
      <span class="test-step">
        <Status tone={step.ok ? 'good' : 'bad'}>{step.ok ? 'Done' : 'Failed'}</Status>
        <strong>{STEPS[step.step]}</strong>
        <span class="muted number">{step.ms} ms</span>
        {step.ok && <span class="muted mono">{step.detail}</span>}
      </span>
      {!step.ok && (
        <div class="notice danger">
          <p>
            <strong>{step.message}</strong>
          </p>
          <p>
            <MarkedText>{step.advice ?? ''}</MarkedText>
          </p>
        </div>
      )}
    </li>
  );
}
