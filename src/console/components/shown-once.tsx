import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { CopyButton } from './copy-button.tsx';
import { useKeptOpen } from './dialog.tsx';
import { Field } from './field.tsx';

interface ShownOnceProps {
  label: string;
  secret: string;
  /** What can be done where it is lost. */
  children: ComponentChildren;
  onClose: () => void;
}

/** A secret that nobody can look at again, for its owner to copy. The dialog around is closed by its button alone. */
export function ShownOnce({ label, secret, children, onClose }: ShownOnceProps) {
  const input = useRef<HTMLInputElement>(null);
  useKeptOpen(true);
  // The button that had the focus is gone.
  useEffect(() => input.current?.focus(), []);
  return (
    <div class="shown-once">
      <p class="notice warning" role="status">
        <span>
          <strong>Copy it now: it is shown this once.</strong> {children}
        </span>
      </p>
      <div class="secret">
        <Field label={label}>
          <input ref={input} class="mono" readOnly value={secret} onFocus={({ currentTarget }) => currentTarget.select()} />
        </Field>
        <CopyButton text={secret} what={label} />
      </div>
      <div class="actions">
        <button type="button" class="primary" onClick={onClose}>
          Done
        </button>
      </div>
    </div>
  );
}
