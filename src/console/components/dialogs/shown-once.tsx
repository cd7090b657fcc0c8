import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { useUnsent } from '../../session.tsx';
import { Field } from '../forms/field.tsx';
import { useKeptOpen } from '../forms/surrounding-dialog.ts';
import { CopyButton } from '../values/copy-button.tsx';

interface ShownOnceProps {
  label: string;
  secret: string;
  /** Says what to do if the secret is lost. */
  children: ComponentChildren;
  onClose: () => void;
}

/** A secret shown once, to be copied now. Only its button closes the surrounding dialog. */
export function ShownOnce({ label, secret, children, onClose }: ShownOnceProps) {
  const input = useRef<HTMLInputElement>(null);
  useKeptOpen(true);
  useUnsent(true);
  // The button that had the focus no longer exists.
  useEffect(() => input.current?.focus(), []);
  return (
    <div class="shown-once">
      <p class="notice warning" role="status">
        <span>
          <strong>Copy it now. It is shown only once.</strong> {children}
        </span>
      </p>
      <div class="secret">
        <Field label={label}>
          <input
            ref={input}
            class="mono"
            readOnly
            value={secret}
            onFocus={({ currentTarget }) => currentTarget.select()}
          />
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
