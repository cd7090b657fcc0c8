import { type ComponentChildren, createContext } from 'preact';
import { useCallback, useContext, useState } from 'preact/hooks';

const SHOWN_MS = 6_000;

type Say = (text: string) => void;
const Context = createContext<Say>(() => {});

/** Tells in the corner, and to screen readers, that something was done. What went wrong belongs beside its cause instead. */
export const useToast = (): Say => useContext(Context);

export function ToastProvider({ children }: { children: ComponentChildren }) {
  const [toasts, setToasts] = useState<{ id: number; text: string }[]>([]);
  const say = useCallback<Say>((text) => {
    const id = performance.now();
    setToasts((before) => [...before, { id, text }]);
    setTimeout(() => setToasts((before) => before.filter((toast) => toast.id !== id)), SHOWN_MS);
  }, []);
  return (
    <Context.Provider value={say}>
      {children}
      <div class="toasts" role="status" aria-live="polite">
        {toasts.map(({ id, text }) => (
          <p key={id}>{text}</p>
        ))}
      </div>
    </Context.Provider>
  );
}
