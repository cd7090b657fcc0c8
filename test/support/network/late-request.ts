import { createRequire } from 'node:module';
import { FTPContext } from 'basic-ftp';
import { onTestFinished } from 'vitest';
import type { TcpProxy } from './tcp-proxy.ts';

interface SftpRequests {
  rename(from: string, to: string, done: unknown): void;
  ext_openssh_rename(from: string, to: string, done: unknown): void;
  open(path: string, flags: string, ...rest: unknown[]): void;
}

const { SFTP } = createRequire(import.meta.url)('ssh2/lib/protocol/SFTP.js') as {
  SFTP: { prototype: SftpRequests };
};

/**
 * Holds back, once, the request of SFTP or FTPS whose text matches: `rename FROM TO`, `open PATH`,
 * or the command of FTPS. The clients must be in the process of the test. Resolves when the proxy
 * has the request, with what lets the server have it.
 */
export async function holdRequest(proxy: TcpProxy, wanted: RegExp): Promise<() => Promise<void>> {
  let isSent = false;
  const note = (text: string) => {
    if (wanted.test(text)) isSent = true;
  };
  const { rename, ext_openssh_rename, open } = SFTP.prototype;
  const { send } = FTPContext.prototype;
  Object.assign(SFTP.prototype, {
    rename(from: string, to: string, done: unknown) {
      note(`rename ${from} ${to}`);
      return rename.call(this as never, from, to, done);
    },
    ext_openssh_rename(from: string, to: string, done: unknown) {
      note(`rename ${from} ${to}`);
      return ext_openssh_rename.call(this as never, from, to, done);
    },
    open(path: string, flags: string, ...rest: unknown[]) {
      note(`open ${path}`);
      return open.call(this as never, path, flags, ...rest);
    },
  });
  FTPContext.prototype.send = function watched(command) {
    note(command);
    return send.call(this, command);
  };
  const restore = () => {
    Object.assign(SFTP.prototype, { rename, ext_openssh_rename, open });
    FTPContext.prototype.send = send;
  };
  onTestFinished(restore);
  const release = await proxy.holdWhen(() => isSent, 'up');
  restore();
  return release;
}
