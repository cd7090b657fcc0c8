import { execFile } from 'node:child_process';
import { chmod, stat } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { EmbeddedPostgresError } from './error.ts';

const run = promisify(execFile);

/** How a program is started so that Postgres accepts its user: it refuses to run as root. */
export interface Account {
  uid?: number;
  gid?: number;
  /** Program and arguments put before the command. It ends in an exec: the process id is the command's. */
  prefix: string[];
}

/** A user namespace without a mapping: still root to the file system, but not to itself. */
const NAMESPACE: Account = { prefix: ['unshare', '-U', '--'] };

/**
 * The account for the files in `home`. An ordinary user runs Postgres as itself. Root runs it as whoever
 * owns the files; where that is root too, in a user namespace; where that is refused, as `nobody`, who is
 * given the files. Throws EmbeddedPostgresError where no way is open.
 */
export async function accountFor(home: string): Promise<Account> {
  if (process.getuid?.() !== 0) return hasName() ? { prefix: [] } : NAMESPACE;
  const { uid, gid } = await stat(home);
  if (uid !== 0) return anotherUser(home, uid, gid);
  if (await canRun(NAMESPACE, ['test', '-w', home])) return NAMESPACE;
  return anotherUser(home, ...(await giveToNobody(home)));
}

/** initdb wants to know its user's name. A container's arbitrary user id has none; the namespace's does. */
function hasName(): boolean {
  try {
    return userInfo().username !== '';
  } catch {
    return false;
  }
}

/** True when the command ends with success under this account. */
export async function canRun(account: Account, command: string[]): Promise<boolean> {
  const [program = '', ...args] = [...account.prefix, ...command];
  return run(program, args, { uid: account.uid, gid: account.gid }).then(
    () => true,
    () => false,
  );
}

async function giveToNobody(home: string): Promise<[uid: number, gid: number]> {
  const [uid, gid] = await Promise.all(['-u', '-g'].map(async (flag) => Number((await run('id', [flag, 'nobody'])).stdout)));
  await run('chown', ['-R', `${uid}:${gid}`, home]);
  // Only the way through is opened; what lies beside it keeps its own permissions.
  await chmod(dirname(home), 0o711);
  return [uid as number, gid as number];
}

async function anotherUser(home: string, uid: number, gid: number): Promise<Account> {
  const plain: Account = { uid, gid, prefix: [] };
  if (await canRun(plain, ['test', '-w', home])) return plain;
  // The one capability that reaches a folder below one that is closed to others, such as /root; access(2) heeds it only with that bit.
  const capability = ['--securebits=+no_setuid_fixup', '--inh-caps=+dac_override', '--ambient-caps=+dac_override'];
  const capable: Account = { prefix: ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', ...capability, '--'] };
  if (await canRun(capable, ['test', '-w', home])) return capable;
  throw new EmbeddedPostgresError(
    `Postgres does not run as root; here user namespaces are refused, and user ${uid} can't reach ${home}. ` +
      'Run as an ordinary user, set WAYBILL_DATA_DIR to a folder that every user can reach, or set DATABASE_URL to a Postgres of your own.',
  );
}
