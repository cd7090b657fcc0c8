import { type ComponentChildren, createContext } from 'preact';
import { useContext, useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}

interface Around {
  closable: boolean;
  setClosable: (closable: boolean) => void;
  onClose: () => void;
}

const Context = createContext<Around>({ closable: true, setClosable: () => {}, onClose: () => {} });

/** The browser's own modal dialog, open as long as it is drawn. Escape closes it, and the focus returns to where it was. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [closable, setClosable] = useState(true);
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
        aria-labelledby={id}
        // Chromium closes at a further Escape whatever a page prevents. Browsers that do not know the attribute leave it to the page.
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

/** Keeps the dialog around open, whatever is pressed, as long as what would be lost with it is there or on its way. */
export function useKeptOpen(kept: boolean): void {
  const { setClosable } = useContext(Context);
  useLayoutEffect(() => {
    if (!kept) return;
    setClosable(false);
    return () => setClosable(true);
  }, [kept, setClosable]);
}

/** Closes the dialog around, as Escape does. */
export function CloseButton({ children }: { children: string }) {
  const { closable, onClose } = useContext(Context);
  return (
    <button type="button" disabled={!closable} onClick={onClose}>
      {children}
    </button>
  );
}
