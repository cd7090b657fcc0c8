import { useState } from 'preact/hooks';
import { Icon } from './icon.tsx';

const COPIED = 'Copied';
const REFUSED = 'The browser does not let this page copy: mark the text and copy it yourself';
const SHOWN_MS = 2_000;

/** Copies a text, and says beside the button what came of it. `what` completes the button's name: `Copy the key`. */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const [said, setSaid] = useState('');
  async function copy(): Promise<void> {
    try {
      // Where the console is not served over TLS, browsers have no clipboard.
      await navigator.clipboard.writeText(text);
      setSaid(COPIED);
      setTimeout(() => setSaid(''), SHOWN_MS);
    } catch {
      setSaid(REFUSED);
    }
  }
  return (
    <>
      <button type="button" class="ghost copy" aria-label={`Copy ${what}`} onClick={() => void copy()}>
        <Icon name={said === COPIED ? 'check' : 'copy'} />
      </button>
      <span role="status">{said}</span>
    </>
  );
}
