import { type ComponentChildren, createContext } from 'preact';
import { useContext, useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';

interface DialogProps {
  title: string;
  /** Room for a list. */
  wide?: boolean;
  /** Hides the page behind it, and cannot be closed. */
  cover?: boolean;
  onClose?: () => void;
  children: ComponentChildren;
}

interface DialogState {
  closable: boolean;
  setClosable: (closable: boolean) => void;
  onClose: () => void;
}

const Context = createContext<DialogState>({
  closable: true,
  setClosable: () => {},
  onClose: () => {},
});

/**
 * The browser's modal dialog, open while it is rendered. Escape closes it, and the focus returns to
 * the element that had it.
 */
export function Dialog({ title, wide, cover, onClose = () => {}, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [released, setClosable] = useState(true);
  const closable = released && !cover;
  const id = useId();
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    return () => before?.focus();
  }, []);
  return (
    <Context.Provider value={{ closable, setClosable, onClose }}>
      <dialog
        ref={dialog}
        class={wide ? 'wide' : cover ? 'cover' : undefined}
        aria-labelledby={id}
        // Chromium closes at a second Escape even if the page prevents the event, so it needs this
        // attribute. Browsers without the attribute obey the page.
        closedby={closable ? 'closerequest' : 'none'}
        onCancel={(event) => closable || event.preventDefault()}
        onClose={onClose}
      >
        <h2 id={id}>{title}</h2>
        {children}
      </dialog>
    </Context.Provider>
  );
}

/**
 * Keeps the surrounding dialog open, whatever key is pressed, while closing it would lose a
 * response or a secret.
 */
export function useKeptOpen(kept: boolean): void {
  const { setClosable } = useContext(Context);
  useLayoutEffect(() => {
    if (!kept) return;
    setClosable(false);
    return () => setClosable(true);
  }, [kept, setClosable]);
}

/** Closes the surrounding dialog, as Escape does. */
export function CloseButton({ children }: { children: string }) {
  const { closable, onClose } = useContext(Context);
  return (
    <button type="button" disabled={!closable} onClick={onClose}>
      {children}
    </button>
  );
}
