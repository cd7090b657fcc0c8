import { useEffect, useState } from 'preact/hooks';

const CHANGED = 'waybill-cover';
let covered = false;

/** False in a background tab, and while the sign-in covers the page: it asks for nothing then. */
export const isVisible = () => !covered && document.visibilityState === 'visible';

/** Tells the page whether the sign-in covers it. */
export function setCovered(on: boolean): void {
  covered = on;
  document.dispatchEvent(new Event(CHANGED));
}

/** Returns `isVisible`, and renders again when it changes. */
export function useVisible(): boolean {
  const [visible, setVisible] = useState(isVisible);
  useEffect(() => {
    const update = () => setVisible(isVisible());
    const events = ['visibilitychange', CHANGED];
    for (const name of events) document.addEventListener(name, update);
    return () => {
      for (const name of events) document.removeEventListener(name, update);
    };
  }, []);
  return visible;
}
