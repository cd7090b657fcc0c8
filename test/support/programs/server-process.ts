import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { descendants, killAll } from './process-tree.ts';

export interface ServerProcess {
  readonly child: ChildProcess;
  readonly ended: boolean;
  /**
   * Returns when `check`, which is retried, is true: then true, or false if the server ended
   * before.
   */
  ready(check: () => Promise<boolean>): Promise<boolean>;
  /** Ends it and all its child processes, like a machine that goes down. */
  kill(): Promise<void>;
}

// If the test process itself is killed, no handler can end its servers. The kernel does it then.
const SETPRIV = '/usr/bin/setpriv';
const DIE_WITH_PARENT = existsSync(SETPRIV) ? [SETPRIV, '--pdeathsig', 'KILL'] : [];

/** Starts a server as a child process that never outlives the tests. */
export function startProcess(
  command: string[],
  options: { env?: NodeJS.ProcessEnv; cwd?: string; stdio?: StdioOptions } = {},
): ServerProcess {
  const [program, ...args] = [...DIE_WITH_PARENT, ...command];
  const child = spawn(program as string, args, { stdio: 'ignore', ...options });
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  const exited = once(child, 'exit').finally(() => process.off('exit', kill));
  const ended = () => child.exitCode !== null || child.signalCode !== null;

  return {
    child,
    get ended() {
      return ended();
    },
    async ready(check) {
      while (!ended()) {
        if (await Promise.race([check(), exited.then(() => false)])) return !ended();
        await sleep(10);
      }
      return false;
    },
    async kill() {
      if (ended()) return;
      const pid = child.pid as number;
      await killAll([pid, ...descendants(pid)]);
      await exited;
    },
  };
}

/** Returns whether something on loopback accepts connections on this port. */
export async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
