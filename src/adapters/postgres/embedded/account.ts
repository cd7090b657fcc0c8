import { execFile } from 'node:child_process';
import { chmod, stat } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { EmbeddedPostgresError } from './error.ts';

const run = promisify(execFile);

/** How a program is started so that Postgres accepts its user: Postgres does not run as root. */
export interface Account {
  uid?: number;
  gid?: number;
  /**
   * Program and arguments before the command. They end in an exec, so the process id is that of the
   * command.
   */
  prefix: string[];
}

/**
 * A user namespace without a mapping: the process keeps root's access to files, but does not see
 * itself as root.
 */
const NAMESPACE: Account = { prefix: ['unshare', '-U', '--'] };

/**
 * Returns the account for the files in `home`. Throws EmbeddedPostgresError if no way works.
 *
 * An ordinary user runs Postgres as itself. Root tries, in this order:
 *
 * - The owner of the files, if that is not root.
 * - A user namespace.
 * - The user `nobody`, who becomes the owner of the files.
 */
export async function accountFor(home: string): Promise<Account> {
  if (process.getuid?.() !== 0) return hasName() ? { prefix: [] } : NAMESPACE;
  const { uid, gid } = await stat(home);
  if (uid !== 0) return anotherUser(home, uid, gid);
  if (await canRun(NAMESPACE, ['test', '-w', home])) return NAMESPACE;
  return anotherUser(home, ...(await giveToNobody(home)));
}

/**
 * Returns whether the user has a name, which initdb needs. A container's arbitrary user id has
 * none; the user of the namespace has one.
 */
function hasName(): boolean {
  try {
    return userInfo().username !== '';
  } catch {
    return false;
  }
}

/** Returns true if the command succeeds under this account. */
export async function canRun(account: Account, command: string[]): Promise<boolean> {
  const [program = '', ...args] = [...account.prefix, ...command];
  return run(program, args, { uid: account.uid, gid: account.gid }).then(
    () => true,
    () => false,
  );
}

async function giveToNobody(home: string): Promise<[uid: number, gid: number]> {
  const [uid, gid] = await Promise.all(
    ['-u', '-g'].map(async (flag) => Number((await run('id', [flag, 'nobody'])).stdout)),
  );
  await run('chown', ['-R', `${uid}:${gid}`, home]);
  // Opens only the path to the files. Other files beside it keep their own permissions.
  await chmod(dirname(home), 0o711);
  return [uid as number, gid as number];
}

async function anotherUser(home: string, uid: number, gid: number): Promise<Account> {
  const plain: Account = { uid, gid, prefix: [] };
  if (await canRun(plain, ['test', '-w', home])) return plain;
  // This capability alone reaches a folder inside a closed one, such as /root. access(2) respects
  // it only with that securebit.
  const capability = [
    '--securebits=+no_setuid_fixup',
    '--inh-caps=+dac_override',
    '--ambient-caps=+dac_override',
  ];
  const capable: Account = {
    prefix: ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', ...capability, '--'],
  };
  if (await canRun(capable, ['test', '-w', home])) return capable;
  throw new EmbeddedPostgresError(
    'Postgres does not run as root, user namespaces are not permitted here, ' +
      `and user ${uid} can't reach ${home}. ` +
      'Run as an ordinary user, set WAYBILL_DATA_DIR to a folder that every user can reach, ' +
      'or set DATABASE_URL to a Postgres of your own.',
  );
}
