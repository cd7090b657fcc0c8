import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { endsSession, isUnanswered, RequestFailed } from '../../api/client.ts';
import { useUnsent } from '../../session.tsx';
import { ProblemNotice } from '../feedback/problem.tsx';
import { useKeptOpen, useNoteTyped } from './surrounding-dialog.ts';

interface FormProps {
  /** Text of the submit button. */
  submit: string;
  /** Of the submit button: `danger` if it does harm. `primary` by default. */
  kind?: 'primary' | 'danger';
  /**
   * Sends the form. A RequestFailed is shown at the fields that it names, else above the button.
   * `pressed` is the value of the button.
   */
  onSubmit: (pressed: string) => Promise<unknown>;
  /** Other buttons: one that cancels, or one of type `submit` with a value. */
  beside?: ComponentChildren;
  /** Names of the request's fields that this form has. */
  fields?: readonly string[];
  /** Renders the fields; `errors` holds the error of each field by its name. */
  children: (errors: Record<string, string>) => ComponentChildren;
}

/**
 * A form that shows each error at its field and moves the focus to the first. A dialog around it
 * stays open until the response arrives. If the session ends meanwhile, what was typed stays.
 */
export function Form({
  submit,
  kind = 'primary',
  onSubmit,
  beside,
  fields = [],
  children,
}: FormProps) {
  const form = useRef<HTMLFormElement>(null);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<RequestFailed | null>(null);
  const unanswered = useRef(false);
  useKeptOpen(busy);
  const setUnsent = useUnsent(false);
  const noteTyped = useNoteTyped();
  const errors = failure?.fields ?? {};
  const hasOtherError = failure && !Object.keys(errors).some((name) => fields.includes(name));

  useEffect(() => {
    if (failure) form.current?.querySelector<HTMLElement>('[aria-invalid]')?.focus();
  }, [failure]);

  async function send(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    if (busy) return;
    const pressed = (event.submitter as HTMLButtonElement | null)?.value ?? '';
    setBusy(true);
    setFailure(null);
    try {
      await onSubmit(pressed);
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error;
      if (!endsSession(error.problem)) setFailure(error);
      unanswered.current ||= pressed === '' && isUnanswered(error.problem);
    } finally {
      setBusy(false);
    }
  }

  return (
    <form
      ref={form}
      noValidate
      onInput={({ target, currentTarget }) => {
        // A dialog inside the form, such as one that browses files, has no input of the form.
        if (currentTarget.contains((target as Element).closest('dialog'))) return;
        setUnsent(true);
        noteTyped();
      }}
      onSubmit={(event) => void send(event)}
    >
      {children(errors)}
      {hasOtherError && <ProblemNotice error={failure} unsure={unanswered.current} />}
      <div class="actions">
        <button type="submit" class={kind} aria-busy={busy}>
          {submit}
        </button>
        {beside}
      </div>
    </form>
  );
}
