import { closeSync, openSync } from 'node:fs';

/** System errors that say what this process or its machine lacks. The other end has no part in it. */
const SHORTAGES: Record<string, string> = {
  EMFILE: 'this process of Waybill has too many open files: raise its limit (ulimit -n)',
  ENFILE: 'the machine that runs Waybill has too many open files: raise its limit (fs.file-max)',
  ENOBUFS: 'the machine that runs Waybill has no memory left for connections',
  ENOMEM: 'the machine that runs Waybill has no memory left',
};

/** Node puts the system error of a thread or module that cannot be loaded into the message only. */
const NOT_LOADED = /^ERR_(WORKER_INIT_FAILED|INVALID_PACKAGE_CONFIG)$/;

/** The look-up of a name: of the system, or of the DNS. */
const LOOK_UP = /^(getaddrinfo|query)/;

/** Opening it needs nothing but a free place for an open file. */
const ALWAYS_THERE = '/dev/null';

/**
 * Returns what this process or its machine lacked, in words for its operator. Null for any other
 * error. A look-up says that a name has no address if it could not open a file or a socket, so that
 * asks whether this process can open one.
 */
export function shortageOf(error: unknown): string | null {
  for (let each = error; each instanceof Error; each = causeOf(each)) {
    const { code = '', syscall = '', message } = each as NodeJS.ErrnoException;
    const words = SHORTAGES[NOT_LOADED.test(code) ? nameIn(message) : code];
    if (words !== undefined) return words;
    if (LOOK_UP.test(syscall)) return shortageOfFiles();
  }
  return null;
}

/** Returns why this process can open no file or connection now. Null if it can. */
export function shortageOfFiles(): string | null {
  try {
    closeSync(openSync(ALWAYS_THERE, 'r'));
    return null;
  } catch (error) {
    return SHORTAGES[String((error as NodeJS.ErrnoException).code)] ?? null;
  }
}

function nameIn(message: string): string {
  return /too many open files/.test(message) ? 'EMFILE' : (/E[A-Z]+$/.exec(message)?.[0] ?? '');
}

/** If several addresses were tried, the error of the first one is the cause. */
function causeOf(error: Error): unknown {
  return error instanceof AggregateError ? error.errors[0] : error.cause;
}
