import { useEffect, useState } from 'preact/hooks';

const isVisible = () => document.visibilityState === 'visible';

/** Whether the page is looked at: false in a tab behind others. */
export function useVisible(): boolean {
  const [visible, setVisible] = useState(isVisible);
  useEffect(() => {
    const look = () => setVisible(isVisible());
    document.addEventListener('visibilitychange', look);
    return () => document.removeEventListener('visibilitychange', look);
  }, []);
  return visible;
}
