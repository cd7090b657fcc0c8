/** What the promise gives, or `Late` after `ms`: most clients keep no deadline when their server falls silent. */
export async function within<T>(ms: number, promise: PromiseLike<T>, Late: new (message: string) => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Late(`no answer within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
