import { Page } from '../components/layout/page.tsx';
import { HOME } from '../overview.tsx';
import { type Scope, useSession } from '../session.tsx';

/** Replaces a page that the session may not open. */
export function NotAllowedPage({ scope }: { scope: Scope }) {
  const { account, accounts, roles } = useSession().session;
  const role = roles.length > 0 ? `Your role ${roles.join(', ')}` : 'Your key';
  return (
    <Page title="Not allowed">
      <section class="empty">
        <p>
          {role} does not include this page in {account}. It needs the scope <code>{scope}</code>.
          Ask an administrator for a role that has it
          {accounts.length > 1 && ', or switch the account'}.
        </p>
        <a class="button" href={HOME}>
          Open Home
        </a>
      </section>
    </Page>
  );
}
