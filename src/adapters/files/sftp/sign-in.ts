import type { AuthenticationType, Client, ConnectConfig } from 'ssh2';

/** What an account of an SSH server needs to sign in. */
export interface SshCredentials {
  password?: string | undefined;
  private_key?: string | undefined;
  passphrase?: string | undefined;
}

/**
 * Makes one attempt with the credentials, so that a wrong password counts once towards a lock-out.
 */
export function signIn({ password, private_key, passphrase }: SshCredentials): ConnectConfig {
  if (private_key !== undefined) {
    return {
      privateKey: private_key,
      ...(passphrase === undefined ? {} : { passphrase }),
      authHandler: oneOf(['publickey']),
    };
  }
  return {
    ...(password === undefined ? {} : { password }),
    tryKeyboard: true,
    authHandler: oneOf(['password', 'keyboard-interactive']),
  };
}

function oneOf(methods: AuthenticationType[]): ConnectConfig['authHandler'] {
  let tried = false;
  return (offered: AuthenticationType[] | null, _partial, next) => {
    if (offered === null) return next('none');
    const method = tried ? undefined : methods.find((name) => offered.includes(name));
    tried = true;
    next(method ?? (false as never));
  };
}

/** Answers a server that asks for the password by keyboard-interactive. */
export function answerPrompts(ssh: Client, { password }: ConnectConfig): void {
  ssh.on('keyboard-interactive', (_name, _instructions, _language, prompts, finish) => {
    finish(prompts.length === 1 && password !== undefined ? [password] : prompts.map(() => ''));
  });
}
