/** The operations of a server on names. Each one fails with the server's answer. */
export interface Names {
  /** Returns null if nothing has the name, or if the server does not say. */
  typeOf(path: string): Promise<'file' | 'directory' | null>;
  /** Returns the bytes of a file. Null if there is none, or if the server does not say. */
  sizeOf(path: string): Promise<number | null>;
  /**
   * Returns the names in a folder that have the marker in them. The folder may have any number of
   * others. None if the account may not list it. Throws any other refusal, or the signal's reason.
   */
  list(folder: string, marker: string, signal: AbortSignal): Promise<string[]>;
  /** May replace a file or fail: servers differ. */
  rename(from: string, to: string): Promise<void>;
  /** Always replaces a file; null if the server has no such operation. */
  renameOver: ((from: string, to: string) => Promise<void>) | null;
  /** Also resolves if there is no such file. */
  remove(path: string): Promise<void>;
  /** Returns whether an error is the server's answer, so that the connection is still usable. */
  isRefusal(error: unknown): boolean;
}

/** Returns the server's refusal; null if the operation succeeded. Throws any other error. */
export async function refusalOf(names: Names, work: Promise<unknown>): Promise<unknown> {
  try {
    await work;
    return null;
  } catch (error) {
    if (names.isRefusal(error)) return error;
    throw error;
  }
}
