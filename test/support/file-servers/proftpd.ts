import { execFileSync } from 'node:child_process';
import { userInfo } from 'node:os';
import { join } from 'node:path';

interface Settings {
  /** The folder with the file `accounts`. */
  home: string;
  host: string;
  port: number;
  /** A file, or `none`. */
  systemLog: string;
}

/**
 * Returns what every ProFTPD of the tests has in its configuration. A setting that comes before
 * these wins.
 */
export function proftpdSettings({ home, host, port, systemLog }: Settings): string {
  const asRoot = process.getuid?.() === 0;
  const group = asRoot ? 'root' : execFileSync('id', ['-gn'], { encoding: 'utf8' }).trim();
  return `ServerType standalone
ServerName waybill
DefaultAddress ${host}
SocketBindTight on
Port ${port}
UseIPv6 off
User ${asRoot ? 'root' : userInfo().username}
Group ${group}
RootLogin on
AuthPAM off
AuthOrder mod_auth_file.c
AuthUserFile "${join(home, 'accounts')}"
RequireValidShell off
UseFtpUsers off
AllowOverwrite on
AllowStoreRestart on
AllowRetrieveRestart on
MaxInstances 200
DelayEngine off
UseReverseDNS off
ControlsEngine off
PidFile "${join(home, 'pid')}"
ScoreboardFile "${join(home, 'scoreboard')}"
WtmpLog off
TransferLog none
SystemLog ${systemLog === 'none' ? 'none' : `"${systemLog}"`}`;
}
