import type { ComponentChildren } from 'preact';
import { useContext, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Away } from '../feedback/away.tsx';
import { Toasts } from '../feedback/toast.tsx';
import { SurroundingDialog } from '../forms/surrounding-dialog.ts';

interface DialogProps {
  title: string;
  /** Room for a list. */
  wide?: boolean;
  /** Hides the page behind it, and cannot be closed. */
  cover?: boolean;
  onClose?: () => void;
  children: ComponentChildren;
}

/**
 * The browser's modal dialog, open while it is rendered. Escape closes it, and the focus returns to
 * the element that had it. If a form in it has unsent input, only a second Escape closes it. Nothing
 * outside of it reaches the user, so it has places of its own for messages.
 */
export function Dialog({ title, wide, cover, onClose = () => {}, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [released, setClosable] = useState(true);
  // No state: between the events `input` and `change` of a checkbox, a new rendering would undo the
  // click.
  const typed = useRef(false);
  const [warned, setWarned] = useState(false);
  const closable = released && !cover;
  const id = useId();
  const noteTyped = () => {
    typed.current = true;
  };
  // A passive effect would return the focus some moments after the page has removed the dialog.
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    const element = dialog.current;
    element?.showModal();
    return () => {
      // Until it is closed, nothing on the page can have the focus.
      element?.close();
      before?.focus();
    };
  }, []);
  return (
    <SurroundingDialog.Provider value={{ closable, setClosable, noteTyped, onClose }}>
      <dialog
        ref={dialog}
        class={wide ? 'wide' : cover ? 'cover' : undefined}
        aria-labelledby={id}
        // Chromium closes at a second Escape even if the page prevents the event, so it needs this
        // attribute. Browsers without the attribute obey the page.
        closedby={closable ? 'closerequest' : 'none'}
        onCancel={(event) => {
          event.preventDefault();
          // The event `close` comes a task later, and Enter on the page would be lost until then.
          if (closable && (warned || !typed.current)) onClose();
          else setWarned(closable);
        }}
        // Of a dialog that the page removed, the event comes too late.
        onClose={({ currentTarget }) => currentTarget.isConnected && onClose()}
      >
        <h2 id={id}>{title}</h2>
        <Away />
        {children}
        {warned && (
          <p class="notice warning" role="alert">
            Press Escape again to discard your input.
          </p>
        )}
        <Toasts />
      </dialog>
    </SurroundingDialog.Provider>
  );
}

interface CloseButtonProps {
  /** Has the focus when the dialog opens: a second Enter must not confirm what cannot be undone. */
  first?: boolean;
  children: string;
}

/** Closes the surrounding dialog. */
export function CloseButton({ first = false, children }: CloseButtonProps) {
  const { closable, onClose } = useContext(SurroundingDialog);
  return (
    <button type="button" autofocus={first} disabled={!closable} onClick={onClose}>
      {children}
    </button>
  );
}
