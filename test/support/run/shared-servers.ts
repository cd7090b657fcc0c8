declare module 'vitest' {
  interface ProvidedContext {
    sharedServers: string;
  }
}

/** Servers that take seconds of CPU time to start. The test files of a run share one of each. */
export type SharedName = 'azurite' | 'ceph';

/** How a test file reaches a server that it shares with others. */
export type Facts = Record<string, string>;

/** Returns how this test file reaches a shared server. Throws if it does not start. */
export async function sharedServer(name: SharedName): Promise<Facts> {
  // Programs that are no tests import this file too.
  const { inject } = await import('vitest');
  const answer = await fetch(`${inject('sharedServers')}/${name}`);
  if (!answer.ok) throw new Error(await answer.text());
  return (await answer.json()) as Facts;
}
