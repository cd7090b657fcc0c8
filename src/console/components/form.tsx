import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { RequestFailed } from '../api/client.ts';
import { useKeptOpen } from './dialog.tsx';
import { ProblemNotice } from './problem.tsx';

interface FormProps {
  /** What the button says. */
  submit: string;
  /** Sends it. A RequestFailed is shown: at the fields that it names, else above the button. `pressed` is the value of the button. */
  onSubmit: (pressed: string) => Promise<unknown>;
  /** Beside the button, such as one that cancels, or one of the type `submit` with a value. */
  beside?: ComponentChildren;
  /** Names of the request's fields that stand in this form. */
  fields?: readonly string[];
  /** Draws the fields; `errors` says by a field's name what is wrong with it. */
  children: (errors: Record<string, string>) => ComponentChildren;
}

/** A form that says at each field what the service finds wrong with it, and moves there. A dialog around stays open until the answer is there. */
export function Form({ submit, onSubmit, beside, fields = [], children }: FormProps) {
  const form = useRef<HTMLFormElement>(null);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<RequestFailed | null>(null);
  useKeptOpen(busy);
  const errors = failure?.fields ?? {};
  const elsewhere = failure && !Object.keys(errors).some((name) => fields.includes(name));

  useEffect(() => {
    if (failure) form.current?.querySelector<HTMLElement>('[aria-invalid]')?.focus();
  }, [failure]);

  async function send(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setFailure(null);
    try {
      await onSubmit((event.submitter as HTMLButtonElement | null)?.value ?? '');
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error;
      setFailure(error);
    } finally {
      setBusy(false);
    }
  }

  return (
    <form ref={form} noValidate onSubmit={(event) => void send(event)}>
      {children(errors)}
      {elsewhere && <ProblemNotice error={failure} />}
      <div class="actions">
        <button type="submit" class="primary" aria-busy={busy}>
          {submit}
        </button>
        {beside}
      </div>
    </form>
  );
}
