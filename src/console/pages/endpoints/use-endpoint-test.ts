import { useEffect, useRef, useState } from 'preact/hooks';
import type { EndpointTestLine } from '../../api/api-types.ts';
import { lines } from '../../api/client.ts';

export type TestStep = Extract<EndpointTestLine, { type: 'step' }>;
export type TestResult = Extract<EndpointTestLine, { type: 'result' }>;

export interface EndpointTest {
  state: 'none' | 'running' | 'ended';
  steps: readonly TestStep[];
  /** Null until the test has ended. */
  result: TestResult | null;
  /** The body of the request, as JSON. Undefined if it had none. */
  of: string | undefined;
  /**
   * Tests a saved endpoint, with the changes in `body` if it is given. Without an id it tests the
   * endpoint that the body describes. Throws RequestFailed.
   */
  run: (id: string | null, body: unknown) => Promise<void>;
}

const NONE = { state: 'none', steps: [], result: null, of: undefined } as const;

/** Runs an endpoint test and returns its steps as they arrive. */
export function useEndpointTest(): EndpointTest {
  const [test, setTest] = useState<Omit<EndpointTest, 'run'>>(NONE);
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);

  async function run(id: string | null, body: unknown): Promise<void> {
    stop.current?.abort();
    stop.current = new AbortController();
    const { signal } = stop.current;
    setTest({ state: 'running', steps: [], result: null, of: JSON.stringify(body) });
    try {
      const answer =
        id === null
          ? lines<EndpointTestLine>('POST /v1/endpoints/test', { body, signal })
          : lines<EndpointTestLine>('POST /v1/endpoints/{endpoint_id}/test', {
              path: { endpoint_id: id },
              body,
              signal,
            });
      for await (const line of answer) {
        setTest((before) =>
          line.type === 'step'
            ? { ...before, steps: [...before.steps, line] }
            : { ...before, result: line },
        );
      }
      setTest((before) => ({ ...before, state: 'ended' }));
    } catch (error) {
      if (signal.aborted) return;
      setTest(NONE);
      throw error;
    }
  }

  return { ...test, run };
}
