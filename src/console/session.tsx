import { type ComponentChildren, createContext } from 'preact';
import { useCallback, useContext, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call, type RequestFailed, whenSessionEnds } from './api/client.ts';
import type { Session } from './api/operations.ts';
import { ProblemNotice } from './components/problem.tsx';

export interface SignedIn {
  session: Session;
  signOut: () => Promise<void>;
  switchAccount: (account: string) => Promise<void>;
}

interface Standing {
  /** undefined until the service has said; null where nobody is signed in. */
  session: Session | null | undefined;
  setSession: (session: Session | null) => void;
  error: RequestFailed | null;
}

export const SIGN_IN = '/console/sign-in';
/** Kept by the browser while somebody is signed in: key and account. All tabs have one session, and hear here that another has changed it. */
const SIGNED_IN = 'waybill-signed-in';
const Context = createContext<Standing>({ session: undefined, setSession: () => {}, error: null });

export function SessionProvider({ children }: { children: ComponentChildren }) {
  const [session, keepSession] = useState<Session | null>();
  const [error, setError] = useState<RequestFailed | null>(null);
  // An answer is dropped that was asked for before something newer was.
  const turn = useRef(0);
  const setSession = useCallback((now: Session | null) => {
    turn.current++;
    if (now) localStorage.setItem(SIGNED_IN, `${now.key_id} ${now.account}`);
    else localStorage.removeItem(SIGNED_IN);
    keepSession(now);
  }, []);
  useEffect(() => {
    function look(): void {
      if (localStorage.getItem(SIGNED_IN) === null) {
        setSession(null);
        return;
      }
      const asked = ++turn.current;
      call('GET /v1/session').then(
        (now) => {
          if (asked === turn.current) setSession(now);
        },
        (reason: RequestFailed) => {
          if (reason.problem.status !== 401) setError(reason);
        },
      );
    }
    const onStorage = ({ key }: StorageEvent) => key === SIGNED_IN && look();
    // A page that was frozen, or put away behind another address, was told nothing.
    const onVisibility = () => document.visibilityState === 'visible' && look();
    whenSessionEnds(() => setSession(null));
    look();
    window.addEventListener('storage', onStorage);
    document.addEventListener('visibilitychange', onVisibility);
    return () => {
      window.removeEventListener('storage', onStorage);
      document.removeEventListener('visibilitychange', onVisibility);
    };
  }, [setSession]);
  const standing = useMemo(() => ({ session, setSession, error }), [session, setSession, error]);
  return <Context.Provider value={standing}>{children}</Context.Provider>;
}

/** Shows its children to whoever is signed in; others go to the sign-in page, and come back from there. */
export function RequireSession({ children }: { children: ComponentChildren }) {
  const { session, error } = useContext(Context);
  const { url, route } = useLocation();
  useEffect(() => {
    if (session === null) route(`${SIGN_IN}?${new URLSearchParams({ return: url })}`, true);
  }, [session, url, route]);
  if (session) return <>{children}</>;
  return error ? <ProblemNotice error={error} /> : null;
}

/** For pages behind RequireSession. */
export function useSession(): SignedIn {
  const { session, setSession } = useContext(Context);
  if (!session) throw new Error('nobody is signed in here');
  return {
    session,
    async signOut() {
      await call('DELETE /v1/session');
      setSession(null);
    },
    switchAccount: async (account) => setSession(await call('PUT /v1/session/account', { body: { account } })),
  };
}

/** For the sign-in page: exchanges a key for a session. Throws RequestFailed. */
export function useSignIn(): { signedIn: boolean; signIn: (apiKey: string) => Promise<void> } {
  const { session, setSession } = useContext(Context);
  return {
    signedIn: Boolean(session),
    signIn: async (api_key) => setSession(await call('POST /v1/session', { body: { api_key } })),
  };
}
