import type { AuthenticationType, Client, ConnectConfig } from 'ssh2';

/** What an account of an SSH server needs to sign in. With both secrets, it may need both. */
export interface SshCredentials {
  password?: string | undefined;
  private_key?: string | undefined;
  passphrase?: string | undefined;
}

interface Secret {
  name: string;
  methods: AuthenticationType[];
}

const KEY: Secret = { name: 'private key', methods: ['publickey'] };
const PASSWORD: Secret = { name: 'password', methods: ['password', 'keyboard-interactive'] };

/** One sign-in to an SSH server. */
export interface SignIn {
  /** The options for ssh2. */
  config: ConnectConfig;
  /**
   * Returns what the server has said of each secret after a failure. Null if it has said no more
   * than that the sign-in failed.
   */
  refusal(): string | null;
}

/**
 * Makes one attempt with each secret, so that a wrong password counts once towards a lock-out. A
 * server that requires both names one, or both, and says after the first that it was a part.
 */
export function signIn({ password, private_key, passphrase }: SshCredentials): SignIn {
  const secrets = [
    ...(private_key === undefined ? [] : [KEY]),
    ...(password === undefined ? [] : [PASSWORD]),
  ];
  const left = [...secrets];
  const accepted: string[] = [];
  const rejected: string[] = [];
  let sent: Secret | undefined;
  let required: AuthenticationType[] = [];

  const authHandler: ConnectConfig['authHandler'] = (
    offered: AuthenticationType[] | null,
    partial,
    next,
  ) => {
    if (offered === null) return next('none');
    if (sent) (partial ? accepted : rejected).push(sent.name);
    required = offered;
    const methodOf = ({ methods }: Secret) => methods.find((name) => offered.includes(name));
    sent = left.find(methodOf);
    if (!sent) return next(false as never);
    left.splice(left.indexOf(sent), 1);
    next(methodOf(sent) as AuthenticationType);
  };

  return {
    config: {
      ...(private_key === undefined ? {} : { privateKey: private_key }),
      ...(passphrase === undefined ? {} : { passphrase }),
      ...(password === undefined ? {} : { password, tryKeyboard: true }),
      authHandler,
    },
    refusal() {
      if (accepted.length === 0 && secrets.length < 2) return null;
      const said = [
        ...accepted.map((name) => `${name} accepted`),
        ...rejected.map((name) => `${name} rejected`),
      ];
      if (accepted.length > 0 && rejected.length === 0 && !sent)
        said.push(`${required.join(' or ')} required`);
      return said.join(', ') || null;
    },
  };
}

/** Answers a server that asks for the password by keyboard-interactive. */
export function answerPrompts(ssh: Client, { password }: ConnectConfig): void {
  ssh.on('keyboard-interactive', (_name, _instructions, _language, prompts, finish) => {
    finish(prompts.length === 1 && password !== undefined ? [password] : prompts.map(() => ''));
  });
}
