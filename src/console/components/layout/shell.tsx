import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { NAVIGATION, type NavigationPage, navigationPageOf } from '../../navigation.ts';
import { HOME } from '../../overview.tsx';
import { useSession } from '../../session.tsx';
import { ActionButton } from '../dialogs/action-button.tsx';
import { Away } from '../feedback/away.tsx';
import { useToast } from '../feedback/toast.tsx';
import { Icon } from '../values/icon.tsx';
import { ZoneSwitch } from '../values/time-zone.tsx';
import { Counts, countsId, useCounts } from './counts.tsx';
import { useLeaveGuard } from './leave-guard.tsx';
import { ThemeSwitch } from './theme-switch.tsx';
import { useKeptFocus } from './use-kept-focus.ts';
import { useReturn } from './use-return.ts';

/** Renders navigation, account and sign-out around every page. */
export function Shell({ children }: { children: ComponentChildren }) {
  const { path, url } = useLocation();
  const { session } = useSession();
  const counts = useCounts();
  const current = navigationPageOf(path)?.href;
  const [open, setOpen] = useState(false);
  const [question, mayLeave] = useLeaveGuard();
  useReturn();
  useKeptFocus();
  const visible = (pages: NavigationPage[]) =>
    pages.filter(({ scope }) => scope === null || session.scopes.includes(scope));
  const menuButton = useRef<HTMLButtonElement>(null);
  // On a narrow screen the menu closes after a navigation.
  useEffect(() => setOpen(false), [url]);
  useEffect(() => {
    if (!open) return;
    const onKey = ({ key }: KeyboardEvent) => {
      if (key !== 'Escape') return;
      setOpen(false);
      menuButton.current?.focus();
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [open]);

  return (
    <div class="shell">
      <a class="skip-link" href="#main">
        Skip to content
      </a>
      <header
        class="sidebar"
        data-open={open}
        // On a narrow screen the open menu would cover what has the focus now.
        onFocusOut={({ currentTarget, relatedTarget }) => {
          if (relatedTarget && !currentTarget.contains(relatedTarget as Node)) setOpen(false);
        }}
      >
        <div class="brand">
          <a href={HOME}>
            <Icon name="brand" /> Waybill
          </a>
          <button
            ref={menuButton}
            type="button"
            class="ghost menu-button"
            aria-expanded={open}
            aria-controls="menu"
            onClick={() => setOpen(!open)}
          >
            <Icon name={open ? 'close' : 'menu'} /> Menu
          </button>
        </div>
        <div class="menu" id="menu">
          <nav aria-label="Console">
            {NAVIGATION.map(({ heading, pages }) => (
              <div key={heading}>
                <p class="nav-heading">{heading}</p>
                <ul>
                  {visible(pages).map(({ href, label, icon }) => (
                    <li key={href}>
                      <a
                        href={href}
                        aria-current={href === current ? 'page' : undefined}
                        aria-describedby={counts[href] && countsId(href)}
                      >
                        <Icon name={icon} /> {label}
                      </a>
                      <Counts of={href} counts={counts[href]} />
                    </li>
                  ))}
                </ul>
              </div>
            ))}
          </nav>
          <SessionBox mayLeave={mayLeave} />
        </div>
      </header>
      {/* A switch of the account mounts the page again, so no state of the other account stays. */}
      <main id="main" key={session.account} tabIndex={-1}>
        <Away />
        {children}
      </main>
      {question}
    </div>
  );
}

function SessionBox({ mayLeave }: { mayLeave: () => Promise<boolean> }) {
  const { session, signOut, switchAccount } = useSession();
  const { account, accounts, key_name, person, roles } = session;
  const notify = useToast();
  async function switchTo(select: HTMLSelectElement): Promise<void> {
    const chosen = select.value;
    try {
      if (await mayLeave()) await switchAccount(chosen);
      else select.value = account;
    } catch (error) {
      select.value = account;
      notify((error as Error).message);
    }
  }
  return (
    <div class="session-box">
      <label>
        <span>Account</span>
        <select value={account} onChange={({ currentTarget }) => void switchTo(currentTarget)}>
          {accounts.map((id) => (
            <option key={id}>{id}</option>
          ))}
        </select>
      </label>
      <ZoneSwitch />
      <ThemeSwitch />
      <p class="muted">
        Signed in {person ? 'as' : 'with'}{' '}
        <strong>{person ? (person.email ?? person.name ?? person.subject) : key_name}</strong>
        {roles.length > 0 && ` (${roles.join(', ')})`}
      </p>
      <ActionButton onAction={async () => (await mayLeave()) && (await signOut())}>
        Sign out
      </ActionButton>
    </div>
  );
}
