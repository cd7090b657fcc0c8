import { useState } from 'preact/hooks';
import { Icon } from './icon.tsx';
import { useToast } from './toast.tsx';

const SHOWN_MS = 2_000;

/** Copies a text. `what` completes the button's name: `Copy the key`. */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const [copied, setCopied] = useState(false);
  const say = useToast();
  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), SHOWN_MS);
    } catch {
      say('The browser does not let this page copy: mark the text and copy it yourself');
    }
  }
  return (
    <button type="button" class="ghost copy" aria-label={copied ? 'Copied' : `Copy ${what}`} onClick={() => void copy()}>
      <Icon name={copied ? 'check' : 'copy'} />
    </button>
  );
}
