/** The log is not the one that was signed. The message says what differs. */
export class LogChanged extends Error {
  override readonly name = 'LogChanged';
}
