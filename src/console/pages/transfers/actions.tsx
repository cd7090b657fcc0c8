import { useState } from 'preact/hooks';
import type { TransferDetail } from '../../api/api-types.ts';
import { call, urlOf } from '../../api/client.ts';
import { ActionButton } from '../../components/dialogs/action-button.tsx';
import { ConfirmButton } from '../../components/dialogs/confirm.tsx';
import { CloseButton } from '../../components/dialogs/dialog.tsx';
import { DialogButton } from '../../components/dialogs/dialog-button.tsx';
import { useToast } from '../../components/feedback/toast.tsx';
import { Form } from '../../components/forms/form.tsx';
import { useOpen } from '../../components/layout/use-open.ts';
import { May } from '../../session.tsx';
import { PriorityField } from './priority-field.tsx';
import { CHANGEABLE, hasEnded } from './states.tsx';

interface ActionsProps {
  transfer: TransferDetail;
  onChange: () => void;
}

/** The buttons of a transfer: what its state allows. */
export function TransferActions({ transfer: { id, status, priority }, onChange }: ActionsProps) {
  const notify = useToast();
  const path = { transfer_id: id };
  const after = (text: string) => () => {
    notify(text);
    onChange();
  };
  const cancel = () =>
    call('DELETE /v1/transfers/{transfer_id}', { path }).then(after('Transfer cancelled'));
  const abort = () =>
    call('POST /v1/transfers/{transfer_id}/abort', { path }).then(after('Transfer aborted'));
  const changePriority = (to: typeof priority) =>
    call('PATCH /v1/transfers/{transfer_id}', { path, body: { priority: to } }).then(
      after('Priority changed'),
    );

  if (hasEnded(status)) {
    return (
      <>
        <a class="button" href={`/console/transfers/${id}/receipt`}>
          Receipt
        </a>
        <May scope="transfers:write">
          {CHANGEABLE.retry.includes(status) && <RetryButton key={id} id={id} />}
          <a class="button" href={urlOf('/console/transfers/new', { query: { like: id } })}>
            Create again
          </a>
        </May>
      </>
    );
  }
  // Without keys, an open question of one button would become that of the other.
  if (status === 'in_progress') {
    return (
      <May scope="operate">
        <ConfirmButton
          key="abort"
          label="Abort transfer"
          title="Abort this transfer?"
          onConfirm={abort}
        >
          <p>
            It fails at once. Waybill removes what it wrote at the destination. The source file
            stays.
          </p>
        </ConfirmButton>
      </May>
    );
  }
  return (
    <May scope="transfers:write">
      <DialogButton label="Change priority" title="Change priority">
        {(close) => <PriorityForm now={priority} onSave={(to) => changePriority(to).then(close)} />}
      </DialogButton>
      <ConfirmButton
        key="cancel"
        label="Cancel transfer"
        title="Cancel this transfer?"
        onConfirm={cancel}
      >
        <p>It ends without copying the file.</p>
      </ConfirmButton>
    </May>
  );
}

/** Retries at once, and opens the new transfer. */
function RetryButton({ id }: { id: string }) {
  const open = useOpen();
  const notify = useToast();
  async function retry(idempotencyKey: string): Promise<void> {
    const created = await call('POST /v1/transfers/{transfer_id}/retry', {
      path: { transfer_id: id },
      idempotencyKey,
    });
    notify('New transfer created');
    open(`/console/transfers/${created.id}`);
  }
  return (
    <ActionButton kind="primary" onAction={retry}>
      Retry transfer
    </ActionButton>
  );
}

interface PriorityFormProps {
  now: TransferDetail['priority'];
  onSave: (priority: TransferDetail['priority']) => Promise<void>;
}

function PriorityForm({ now, onSave }: PriorityFormProps) {
  const [priority, setPriority] = useState(now);
  return (
    <Form
      submit="Change priority"
      beside={<CloseButton>Close</CloseButton>}
      onSubmit={() => onSave(priority)}
    >
      {() => <PriorityField value={priority} onChange={setPriority} />}
    </Form>
  );
}
