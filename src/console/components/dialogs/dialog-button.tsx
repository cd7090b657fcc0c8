import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Dialog } from './dialog.tsx';

interface DialogButtonProps {
  label: ComponentChildren;
  kind?: 'primary' | 'danger' | 'ghost' | undefined;
  title: string;
  /** Renders the content of the dialog; `close` closes it. */
  children: (close: () => void) => ComponentChildren;
}

export function DialogButton({ label, kind, title, children }: DialogButtonProps) {
  const [open, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <>
      <button type="button" class={kind} onClick={() => setOpen(true)}>
        {label}
      </button>
      {open && (
        <Dialog title={title} onClose={close}>
          {children(close)}
        </Dialog>
      )}
    </>
  );
}
