import type { ComponentChildren } from 'preact';
import { CloseButton } from './dialog.tsx';
import { DialogButton } from './dialog-button.tsx';
import { Form } from './form.tsx';

interface ConfirmButtonProps {
  /** What the button says, and the one that confirms. */
  label: string;
  /** Completes the button's name for screen readers where the page has several: `Revoke` of `nightly job`. */
  of?: string;
  /** `danger` by default. */
  kind?: 'danger' | 'plain';
  /** The question. */
  title: string;
  /** What follows from it. */
  children: ComponentChildren;
  onConfirm: () => Promise<unknown>;
}

/** A button that asks first, as for what can't be undone, and says in its dialog why it could not be done. */
export function ConfirmButton({ label, of, kind = 'danger', title, children, onConfirm }: ConfirmButtonProps) {
  const name = (
    <>
      {label}
      {of && <span class="visually-hidden"> {of}</span>}
    </>
  );
  return (
    <DialogButton label={name} kind={kind === 'danger' ? kind : undefined} title={title}>
      {(close) => (
        <Form submit={label} onSubmit={() => onConfirm().then(close)} beside={<CloseButton>Keep</CloseButton>}>
          {() => <div class="prose">{children}</div>}
        </Form>
      )}
    </DialogButton>
  );
}
