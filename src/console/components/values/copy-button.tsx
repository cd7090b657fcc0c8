import { useState } from 'preact/hooks';
import { Icon } from './icon.tsx';

const COPIED = 'Copied';
const BLOCKED = 'The browser blocks copying. Select the text and copy it.';
const SHOWN_MS = 2_000;

interface CopyButtonProps {
  text: string;
  /** Completes the button's name: `Copy API key`. */
  what: string;
  /** Shows the button's name beside its icon. */
  named?: boolean;
}

/** Copies a text and shows the outcome beside the button. */
export function CopyButton({ text, what, named = false }: CopyButtonProps) {
  const [outcome, setOutcome] = useState('');
  const name = `Copy ${what}`;
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
        class={named ? undefined : 'ghost copy'}
        aria-label={named ? undefined : name}
        onClick={() => void copy()}
      >
        <Icon name={outcome === COPIED ? 'check' : 'copy'} />
        {named && ` ${name}`}
      </button>
      <span role="status">{outcome}</span>
    </>
  );
}
