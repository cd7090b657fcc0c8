import { createContext } from 'preact';
import { useContext, useLayoutEffect } from 'preact/hooks';

interface DialogState {
  closable: boolean;
  setClosable: (closable: boolean) => void;
  noteTyped: () => void;
  onClose: () => void;
}

/** What a form, or a secret, asks of the dialog around it. Without one, nothing happens. */
export const SurroundingDialog = createContext<DialogState>({
  closable: true,
  setClosable: () => {},
  noteTyped: () => {},
  onClose: () => {},
});

/**
 * Keeps the surrounding dialog open, whatever key is pressed, while closing it would lose a
 * response or a secret.
 */
export function useKeptOpen(kept: boolean): void {
  const { setClosable } = useContext(SurroundingDialog);
  useLayoutEffect(() => {
    if (!kept) return;
    setClosable(false);
    return () => setClosable(true);
  }, [kept, setClosable]);
}

/** Returns what tells the surrounding dialog that its form has unsent input. */
export function useNoteTyped(): () => void {
  return useContext(SurroundingDialog).noteTyped;
}
