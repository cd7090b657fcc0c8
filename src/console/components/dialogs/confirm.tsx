import type { ComponentChildren } from 'preact';
import { Form } from '../forms/form.tsx';
import { CloseButton } from './dialog.tsx';
import { DialogButton } from './dialog-button.tsx';

interface ConfirmButtonProps {
  /** Text of the button and of the one that confirms. */
  label: string;
  /** Completes the button's name for screen readers: `nightly job` in `Revoke nightly job`. */
  target?: string;
  /** `danger` by default. */
  kind?: 'danger' | 'plain';
  title: string;
  /** Explains the consequences. */
  children: ComponentChildren;
  onConfirm: () => Promise<unknown>;
}

/** A button that asks for confirmation. Its dialog shows an error if the action fails. */
export function ConfirmButton({
  label,
  target,
  kind = 'danger',
  title,
  children,
  onConfirm,
}: ConfirmButtonProps) {
  const name = (
    <>
      {label}
      {target && <span class="visually-hidden"> {target}</span>}
    </>
  );
  return (
    <DialogButton label={name} kind={kind === 'danger' ? kind : undefined} title={title}>
      {(close) => (
        <Form
          submit={label}
          kind={kind === 'danger' ? kind : 'primary'}
          onSubmit={() => onConfirm().then(close)}
          beside={<CloseButton first={kind === 'danger'}>Close</CloseButton>}
        >
          {() => <div class="prose">{children}</div>}
        </Form>
      )}
    </DialogButton>
  );
}
