import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Dialog } from './dialog.tsx';
import { Form } from './form.tsx';

interface ConfirmButtonProps {
  /** What the button says, and the one that confirms. */
  label: string;
  /** The question. */
  title: string;
  /** What follows from it. */
  children: ComponentChildren;
  onConfirm: () => Promise<unknown>;
}

/** A button for what can't be undone: it asks first, and says in its dialog why it could not be done. */
export function ConfirmButton({ label, title, children, onConfirm }: ConfirmButtonProps) {
  const [open, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <>
      <button type="button" class="danger" onClick={() => setOpen(true)}>
        {label}
      </button>
      {open && (
        <Dialog title={title} onClose={close}>
          <Form
            submit={label}
            onSubmit={() => onConfirm().then(close)}
            beside={
              <button type="button" onClick={close}>
                Keep
              </button>
            }
          >
            {() => <div class="prose">{children}</div>}
          </Form>
        </Dialog>
      )}
    </>
  );
}
