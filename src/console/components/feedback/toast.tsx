import { type ComponentChildren, createContext } from 'preact';
import { useCallback, useContext, useState } from 'preact/hooks';

const SHOWN_MS = 6_000;

type Notify = (text: string) => void;
const Context = createContext<Notify>(() => {});

/**
 * Returns a function that confirms an action, in the corner of the page and to screen readers.
 * Errors belong beside their cause instead.
 */
export const useToast = (): Notify => useContext(Context);

export function ToastProvider({ children }: { children: ComponentChildren }) {
  const [toasts, setToasts] = useState<{ id: number; text: string }[]>([]);
  const notify = useCallback<Notify>((text) => {
    const id = performance.now();
    setToasts((before) => [...before, { id, text }]);
    setTimeout(() => setToasts((before) => before.filter((toast) => toast.id !== id)), SHOWN_MS);
  }, []);
  return (
    <Context.Provider value={notify}>
      {children}
      <div class="toasts" role="status" aria-live="polite">
        {toasts.map(({ id, text }) => (
          <p key={id}>{text}</p>
        ))}
      </div>
    </Context.Provider>
  );
}
