import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { endsSession, isTransient, newIdempotencyKey, RequestFailed } from '../../api/client.ts';
import { ProblemNotice } from '../feedback/problem.tsx';
import { Dialog } from './dialog.tsx';
import { once } from './once.ts';

interface ActionButtonProps {
  children: ComponentChildren;
  kind?: 'primary';
  disabled?: boolean;
  /** Gets an Idempotency-Key: the same one until the service has answered. */
  onAction: (idempotencyKey: string) => Promise<unknown>;
}

/**
 * A button that acts at once, and shows an error in a dialog. A disabled one keeps the focus, which
 * an action often gives it.
 */
export function ActionButton({ children, kind, disabled = false, onAction }: ActionButtonProps) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<RequestFailed | null>(null);
  const [idempotencyKey, setIdempotencyKey] = useState(newIdempotencyKey);

  async function act(): Promise<void> {
    if (busy || disabled) return;
    setBusy(true);
    try {
      await onAction(idempotencyKey);
      setIdempotencyKey(newIdempotencyKey);
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error;
      if (!isTransient(error.problem)) setIdempotencyKey(newIdempotencyKey);
      // The console asks to sign in again, and the button can be pressed again then.
      if (!endsSession(error.problem)) setFailure(error);
    } finally {
      setBusy(false);
    }
  }

  return (
    <>
      <button
        type="button"
        class={kind}
        aria-disabled={disabled || undefined}
        aria-busy={busy}
        onClick={once(() => void act())}
      >
        {children}
      </button>
      {failure && (
        <Dialog title="Action failed" onClose={() => setFailure(null)}>
          <ProblemNotice error={failure} />
          <button type="button" onClick={() => setFailure(null)}>
            Close
          </button>
        </Dialog>
      )}
    </>
  );
}
