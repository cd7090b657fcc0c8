import type { Batch } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { ActionButton } from '../../components/dialogs/action-button.tsx';
import { ConfirmButton } from '../../components/dialogs/confirm.tsx';
import { useToast } from '../../components/feedback/toast.tsx';
import { useOpen } from '../../components/layout/use-open.ts';
import { many } from '../../components/values/units.ts';
import { May } from '../../session.tsx';

interface ActionsProps {
  batch: Batch;
  onChange: () => void;
}

/** The buttons of a batch: what its state allows. */
export function BatchActions({ batch: { id, status, counts }, onChange }: ActionsProps) {
  const open = useOpen();
  const notify = useToast();
  const path = { batch_id: id };
  async function cancel(): Promise<void> {
    const { cancelled, not_cancelled } = await call('DELETE /v1/batches/{batch_id}', { path });
    const left = not_cancelled.length > 0 ? `, ${not_cancelled.length} in progress continue` : '';
    notify(`${many(cancelled, 'transfer')} cancelled${left}`);
    onChange();
  }
  async function retry(idempotencyKey: string): Promise<void> {
    const created = await call('POST /v1/batches/{batch_id}/retry', { path, idempotencyKey });
    notify('New batch created');
    open(`/console/batches/${created.id}`);
  }
  return (
    <May scope="transfers:write">
      {counts.failed > counts.rejected && (
        <ActionButton kind="primary" onAction={retry}>
          Retry failed
        </ActionButton>
      )}
      {(status === 'creating' || status === 'open') && (
        <ConfirmButton label="Cancel batch" title="Cancel this batch?" onConfirm={cancel}>
          <p>Files that wait are not copied. Those in progress continue.</p>
        </ConfirmButton>
      )}
    </May>
  );
}
