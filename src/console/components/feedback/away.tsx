import { useEffect, useState } from 'preact/hooks';
import { askWhetherReached, isReached, whenReached } from '../../api/client.ts';

const ASK_MS = 5_000;

/**
 * Says that the service does not answer, until it does: some pages ask seldom, or only listen. A
 * page has it, and each dialog.
 */
export function Away() {
  const [away, setAway] = useState(!isReached());
  useEffect(() => whenReached((reached) => setAway(!reached)), []);
  useEffect(() => {
    if (!away) return;
    const timer = setInterval(() => void askWhetherReached(), ASK_MS);
    return () => clearInterval(timer);
  }, [away]);
  if (!away) return null;
  return (
    <p class="notice danger away" role="alert">
      <span>
        <strong>Waybill does not answer.</strong> What you see may be old. This page asks again
        every few seconds.
      </span>
    </p>
  );
}
