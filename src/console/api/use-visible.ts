import { useEffect, useState } from 'preact/hooks';

const isVisible = () => document.visibilityState === 'visible';

/** Returns true while the page is visible; false in a background tab. */
export function useVisible(): boolean {
  const [visible, setVisible] = useState(isVisible);
  useEffect(() => {
    const update = () => setVisible(isVisible());
    document.addEventListener('visibilitychange', update);
    return () => document.removeEventListener('visibilitychange', update);
  }, []);
  return visible;
}
