import type { ComponentChildren } from 'preact';
import { Icon } from '../values/icon.tsx';
import { DialogButton } from './dialog-button.tsx';

interface NewButtonProps {
  label: string;
  /** Of the dialog; the label if there is none. */
  title?: string;
  /** Renders the form; `close` closes the dialog. */
  children: (close: () => void) => ComponentChildren;
}

/** The button above a list, with the form of a new entry. */
export function NewButton({ label, title = label, children }: NewButtonProps) {
  const withIcon = (
    <>
      <Icon name="plus" /> {label}
    </>
  );
  return (
    <DialogButton kind="primary" label={withIcon} title={title}>
      {children}
    </DialogButton>
  );
}
