import { useState } from 'preact/hooks';
import { Icon } from './icon.tsx';

const COPIED = 'Copied';
const BLOCKED = 'The browser blocks copying. Select the text and copy it.';
const SHOWN_MS = 2_000;

/**
 * Copies a text and shows the outcome beside the button. `what` completes the button's name:
 * `Copy API key`.
 */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const [outcome, setOutcome] = useState('');
  async function copy(): Promise<void> {
    try {
      // Without TLS, browsers give the page no clipboard.
      await navigator.clipboard.writeText(text);
      setOutcome(COPIED);
      setTimeout(() => setOutcome(''), SHOWN_MS);
    } catch {
      setOutcome(BLOCKED);
    }
  }
  return (
    <>
      <button
        type="button"
        class="ghost copy"
        aria-label={`Copy ${what}`}
        onClick={() => void copy()}
      >
        <Icon name={outcome === COPIED ? 'check' : 'copy'} />
      </button>
      <span role="status">{outcome}</span>
    </>
  );
}
