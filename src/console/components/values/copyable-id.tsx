import { CopyButton } from './copy-button.tsx';

interface CopyableIdProps {
  id: string;
  /** Completes the button's name: `Copy transfer id`. */
  what: string;
}

/** An id with the button that copies it. */
export function CopyableId({ id, what }: CopyableIdProps) {
  return (
    <span class="copyable">
      <span class="mono">{id}</span>
      <CopyButton text={id} what={what} />
    </span>
  );
}
