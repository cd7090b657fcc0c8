import type { Flow } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { ActionButton } from '../../components/dialogs/action-button.tsx';
import { ConfirmButton } from '../../components/dialogs/confirm.tsx';
import { useToast } from '../../components/feedback/toast.tsx';
import { useOpen } from '../../components/layout/use-open.ts';
import { May } from '../../session.tsx';

interface ActionsProps {
  flow: Flow;
  onChange: () => void;
  onDryRun: () => Promise<void>;
}

/** The buttons of a flow. */
export function FlowActions({ flow: { id, status }, onChange, onDryRun }: ActionsProps) {
  const open = useOpen();
  const notify = useToast();
  const path = { flow_id: id };
  async function run(idempotencyKey: string): Promise<void> {
    const body = { dry_run: false };
    await call('POST /v1/flows/{flow_id}/runs', { path, body, idempotencyKey });
    notify('Run requested');
    onChange();
  }
  async function turn(): Promise<void> {
    await (status === 'paused'
      ? call('POST /v1/flows/{flow_id}/resume', { path })
      : call('POST /v1/flows/{flow_id}/pause', { path }));
    notify(status === 'paused' ? 'Flow resumed' : 'Flow paused');
    onChange();
  }
  async function remove(): Promise<void> {
    await call('DELETE /v1/flows/{flow_id}', { path });
    notify('Flow removed');
    open('/console/flows');
  }
  return (
    <May scope="flows:write">
      <ActionButton kind="primary" onAction={run}>
        Run now
      </ActionButton>
      <ActionButton onAction={onDryRun}>Dry run</ActionButton>
      <ActionButton onAction={turn}>{status === 'paused' ? 'Resume' : 'Pause'}</ActionButton>
      <ConfirmButton label="Remove" title="Remove this flow?" onConfirm={remove}>
        <p>It takes no more files. A run that is open continues.</p>
      </ConfirmButton>
    </May>
  );
}
