/** Exit codes of the command. */
export const EXIT = {
  done: 0,
  failed: 1,
  invalid: 2,
  notFound: 3,
  refused: 4,
  unavailable: 5,
  transferFailed: 6,
  transferCancelled: 7,
  interrupted: 130,
  terminated: 143,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

export const EXIT_CODES_HELP = `
Exit codes:
  0  done
  1  failed
  2  wrong usage or invalid input
  3  not found
  4  rejected in this state
  5  Postgres, the event store or a server can't be reached, or accepts no change now
  6  the watched transfer, or one of the watched batch, has failed
  7  the watched transfer or batch was cancelled
  130, 143  stopped by SIGINT (Ctrl-C) or SIGTERM`;
