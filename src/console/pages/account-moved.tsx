import { ActionButton } from '../components/dialogs/action-button.tsx';
import { Dialog } from '../components/dialogs/dialog.tsx';
import { useMovedSession, useSession } from '../session.tsx';

/** Covers a page with unsent input while the session is in another account than that page. */
export function AccountMoved() {
  const { session, switchAccount } = useSession();
  const { account, discard } = useMovedSession();
  return (
    <Dialog title="The account was switched" cover>
      <p class="notice warning">
        The session is now in {account}. What you have not sent is for {session.account}, and is
        still on the page.
      </p>
      <div class="actions">
        <ActionButton kind="primary" onAction={() => switchAccount(session.account)}>
          Switch back to {session.account}
        </ActionButton>
        <button type="button" class="ghost" onClick={discard}>
          Discard it
        </button>
      </div>
    </Dialog>
  );
}
