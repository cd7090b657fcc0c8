import { type ComponentChildren, createContext } from 'preact';
import { useCallback, useContext, useId, useLayoutEffect, useMemo, useState } from 'preact/hooks';

const SHOWN_MS = 6_000;

type Notify = (text: string) => void;

interface ToastState {
  toasts: { id: number; text: string }[];
  /** Where toasts may appear: the page, then each open dialog. */
  places: string[];
  /** Adds a place. Returns what removes it. */
  addPlace: (place: string) => () => void;
}

const NotifyContext = createContext<Notify>(() => {});
const ToastContext = createContext<ToastState>({
  toasts: [],
  places: [],
  addPlace: () => () => {},
});

/**
 * Returns a function that confirms an action, in the corner of the page and to screen readers.
 * Errors belong beside their cause instead.
 */
export const useToast = (): Notify => useContext(NotifyContext);

export function ToastProvider({ children }: { children: ComponentChildren }) {
  const [toasts, setToasts] = useState<ToastState['toasts']>([]);
  const [places, setPlaces] = useState<string[]>([]);
  const notify = useCallback<Notify>((text) => {
    const id = performance.now();
    setToasts((before) => [...before, { id, text }]);
    setTimeout(() => setToasts((before) => before.filter((toast) => toast.id !== id)), SHOWN_MS);
  }, []);
  const addPlace = useCallback((place: string) => {
    setPlaces((before) => [...before, place]);
    return () => setPlaces((before) => before.filter((other) => other !== place));
  }, []);
  const state = useMemo(() => ({ toasts, places, addPlace }), [toasts, places, addPlace]);
  return (
    <NotifyContext.Provider value={notify}>
      <ToastContext.Provider value={state}>
        {children}
        <Toasts />
      </ToastContext.Provider>
    </NotifyContext.Provider>
  );
}

/**
 * A place where toasts appear. Only the latest place shows them: a modal dialog covers the page, and
 * screen readers skip the rest of the page. They read a new toast without the earlier ones.
 */
export function Toasts() {
  const { toasts, places, addPlace } = useContext(ToastContext);
  const place = useId();
  useLayoutEffect(() => addPlace(place), [addPlace, place]);
  return (
    <div class="toasts" role="status" aria-atomic="false">
      {places.at(-1) === place && toasts.map(({ id, text }) => <p key={id}>{text}</p>)}
    </div>
  );
}
