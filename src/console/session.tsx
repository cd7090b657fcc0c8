import { type ComponentChildren, createContext, Fragment } from 'preact';
import { useCallback, useContext, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import type { Session } from './api/api-types.ts';
import { call, RequestFailed, whenSessionEnds } from './api/client.ts';
import { setCovered } from './api/use-visible.ts';
import { Loading, ProblemNotice } from './components/feedback/problem.tsx';

export interface SignedIn {
  session: Session;
  signOut: () => Promise<void>;
  switchAccount: (account: string) => Promise<void>;
}

interface SessionState {
  /** undefined until the service has answered; null without a session. */
  session: Session | null | undefined;
  setSession: (session: Session | null) => void;
  /** Takes over the session of the answer. If it was lost, asks what the session is now. */
  change: (send: () => Promise<Session>) => Promise<void>;
  error: RequestFailed | null;
  /** Why the last session ended. Null if the user signed out, or if there was none. */
  ended: string | null;
  /**
   * Why the page with unsent input stays, but covered: the session has ended, or it is in another
   * account by now.
   */
  cover: 'ended' | Session | null;
  /** The parts of the page with something that the user would lose with it. */
  unsent: Set<unknown>;
}

export type Scope = Session['scopes'][number];

export const SIGN_IN = '/console/sign-in';
/**
 * Local storage item that names the session and its account. All tabs share one session; a change
 * of this item notifies the other tabs. Only a sign-out removes it: another end of the session is
 * found out by each tab itself. In both cases a tab keeps what the user typed into it.
 */
const SIGNED_IN = 'waybill-signed-in';
/** How long to wait before the service is asked again what the session is. */
const ASK_AGAIN_MS = 2_000;
const Context = createContext<SessionState>({
  session: undefined,
  setSession: () => {},
  change: async () => {},
  error: null,
  ended: null,
  cover: null,
  unsent: new Set(),
});

/** The key or the person of a session. */
const identityOf = ({ key_id, person }: Session) => key_id ?? person?.subject;

const isInOtherAccount = (now: Session, before: Session) =>
  identityOf(now) === identityOf(before) && now.account !== before.account;

export function SessionProvider({ children }: { children: ComponentChildren }) {
  const [session, keepSession] = useState<Session | null>();
  const [error, setError] = useState<RequestFailed | null>(null);
  const [ended, setEnded] = useState<string | null>(null);
  const [cover, setCover] = useState<SessionState['cover']>(null);
  const unsent = useRef(new Set()).current;
  const shown = useRef<Session | null>(null);
  // Drops a response whose request is older than the latest request or change.
  const latest = useRef(0);
  const setSession = useCallback((now: Session | null) => {
    latest.current++;
    if (now) {
      const { account, expires_at } = now;
      localStorage.setItem(SIGNED_IN, `${identityOf(now)} ${account} ${expires_at}`);
      setEnded(null);
    }
    // Another tab, or a new sign-in, chose the account. What was typed is for the one before.
    const isMoved = now && shown.current && isInOtherAccount(now, shown.current);
    const stays = isMoved && unsent.size > 0;
    setCover(stays ? now : null);
    if (stays) return;
    shown.current = now;
    keepSession(now);
  }, []);
  useEffect(() => setCovered(cover !== null), [cover]);
  const end = useCallback(() => {
    latest.current++;
    if (unsent.size > 0) setCover('ended');
    else setSession(null);
  }, []);
  /** Asks what the session is, until the service answers: it may be in another account by now. */
  const refresh = useCallback(async () => {
    if (localStorage.getItem(SIGNED_IN) === null) {
      if (unsent.size > 0) setEnded('You signed out in another tab');
      return end();
    }
    const asked = ++latest.current;
    while (asked === latest.current) {
      try {
        const now = await call('GET /v1/session');
        if (asked === latest.current) setSession(now);
        return;
      } catch (reason) {
        if (!(reason instanceof RequestFailed)) throw reason;
        if (reason.problem.status === 401) return;
        if (shown.current === null) return setError(reason);
      }
      await new Promise((resolve) => setTimeout(resolve, ASK_AGAIN_MS));
    }
  }, []);
  const change = useCallback(async (send: () => Promise<Session>) => {
    const asked = ++latest.current;
    try {
      const now = await send();
      if (asked === latest.current) setSession(now);
      else void refresh();
    } catch (error) {
      void refresh();
      throw error;
    }
  }, []);
  useEffect(() => {
    const onStorage = ({ key }: StorageEvent) => key === SIGNED_IN && void refresh();
    // A page that was frozen, or is in the back-forward cache, gets no storage events.
    const onVisibility = () => document.visibilityState === 'visible' && void refresh();
    whenSessionEnds(({ code, detail }) => {
      // Requests under way when the session ended get another code, which gives no reason. The first
      // answer has the reason; later ones say only that the session has ended.
      if (code === 'session_ended') setEnded((before) => before ?? detail);
      end();
    });
    void refresh();
    window.addEventListener('storage', onStorage);
    document.addEventListener('visibilitychange', onVisibility);
    return () => {
      window.removeEventListener('storage', onStorage);
      document.removeEventListener('visibilitychange', onVisibility);
    };
  }, []);
  const state = useMemo(
    () => ({ session, setSession, change, error, ended, cover, unsent }),
    [session, error, ended, cover],
  );
  return <Context.Provider value={state}>{children}</Context.Provider>;
}

interface RequireSessionProps {
  /** Asks to sign in again. Lies over a page with unsent input after the end of its session. */
  again: ComponentChildren;
  /** Lies over such a page while the session is in another account. */
  moved: ComponentChildren;
  children: ComponentChildren;
}

/**
 * Renders its children if a session exists. Else it opens the sign-in page, which returns here. A
 * page with unsent input stays, but covered; another user who signs in gets a new one.
 */
export function RequireSession({ again, moved, children }: RequireSessionProps) {
  const { session, error, cover } = useContext(Context);
  const { url, route } = useLocation();
  useEffect(() => {
    if (session === null) route(`${SIGN_IN}?${new URLSearchParams({ return: url })}`, true);
  }, [session, url, route]);
  if (session)
    return (
      <>
        <Fragment key={identityOf(session)}>{children}</Fragment>
        {cover === 'ended' ? again : cover && moved}
      </>
    );
  if (!error) return <Loading />;
  return (
    <main class="sign-in">
      <ProblemNotice error={error} retry={() => location.reload()} />
    </main>
  );
}

/**
 * Keeps the page if the session ends while `unsent` is true. The returned function changes that
 * without rendering again, which would undo a click on a check box between its two events.
 */
export function useUnsent(unsent: boolean): (unsent: boolean) => void {
  const { unsent: parts } = useContext(Context);
  const part = useRef<(unsent: boolean) => void>(null);
  part.current ??= (now) => void (now ? parts.add(part) : parts.delete(part));
  useEffect(() => {
    part.current?.(unsent);
    return () => part.current?.(false);
  }, [unsent]);
  return part.current;
}

/** Returns the parts of the page with unsent input. Clearing them gives that up. */
export function useUnsentParts(): Set<unknown> {
  return useContext(Context).unsent;
}

/** Returns the session; for components inside RequireSession. */
export function useSession(): SignedIn {
  const { session, setSession, change } = useContext(Context);
  if (!session) throw new Error('useSession is used outside RequireSession');
  return {
    session,
    async signOut() {
      await call('DELETE /v1/session');
      localStorage.removeItem(SIGNED_IN);
      setSession(null);
      if (session.sign_out_url !== null) location.assign(session.sign_out_url);
    },
    switchAccount: (account) =>
      change(() => call('PUT /v1/session/account', { body: { account } })),
  };
}

/** Renders its children if the session has the scope. The service checks each request again. */
export function May({ scope, children }: { scope: Scope; children: ComponentChildren }) {
  const { session } = useSession();
  return session.scopes.includes(scope) ? children : null;
}

/** For a page with unsent input whose session is in another account by now. */
export function useMovedSession() {
  const { setSession, cover, unsent } = useContext(Context);
  const moved = cover === 'ended' ? null : cover;
  return {
    /** The account of the session. */
    account: moved?.account,
    /** Gives up the page. */
    discard() {
      unsent.clear();
      setSession(moved);
    },
  };
}

export interface SignIn {
  signedIn: boolean;
  /** Why the last session ended, or null. */
  ended: string | null;
  /** Exchanges a key for a session. Throws RequestFailed. */
  signIn: (apiKey: string) => Promise<void>;
  /** Takes over the session that the service began after a sign-in elsewhere. */
  resume: () => Promise<void>;
  /** Gives up the page that was kept. */
  leave: () => void;
}

/** For signing in. */
export function useSignIn(): SignIn {
  const { session, setSession, ended } = useContext(Context);
  const resume = useCallback(async () => setSession(await call('GET /v1/session')), [setSession]);
  return {
    signedIn: Boolean(session),
    ended,
    signIn: async (api_key) => setSession(await call('POST /v1/session', { body: { api_key } })),
    resume,
    leave: () => setSession(null),
  };
}
