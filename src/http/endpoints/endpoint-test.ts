import { openFileEndpoint } from '../../adapters/files/open.ts';
import { createWakeUp } from '../../concurrency/wake-up.ts';
import type { TestLine } from '../../contract/endpoints/answers.ts';
import { type EndpointTest, testEndpoint } from '../../processes/endpoints/endpoint-test.ts';
import type { EndpointAccess } from '../../processes/endpoints/open-endpoint.ts';
import type { StepResult } from '../../processes/endpoints/test-step.ts';

const LOOK_MS = 60_000;

/**
 * Yields the steps of an endpoint test as they happen, and its result, as lines of JSON. The test
 * runs to its end even if the reader stops: its last step cleans up. `onEnd` runs before the result
 * is sent, and must not throw.
 */
export async function* testLines(
  { definition, credentials }: EndpointAccess,
  onEnd: (test: EndpointTest) => Promise<unknown> = async () => {},
): AsyncGenerator<string> {
  const lines: TestLine[] = [];
  const wakeUp = createWakeUp();
  const push = (line: TestLine) => {
    lines.push(line);
    wakeUp.wake();
  };
  const endpoint = await openFileEndpoint(definition, credentials);
  void testEndpoint({ settings: definition.settings, endpoint }, (step) => push(toLine(step))).then(
    async (test) => {
      await onEnd(test);
      const { ok, fingerprint, write_bps, read_bps } = test;
      push({ type: 'result', ok, fingerprint, write_bps, read_bps });
    },
  );
  for (;;) {
    await wakeUp.wait(LOOK_MS);
    for (const line of lines.splice(0)) {
      yield `${JSON.stringify(line)}\n`;
      if (line.type === 'result') return;
    }
  }
}

function toLine(step: StepResult): TestLine {
  return { type: 'step', at: new Date().toISOString(), ...step };
}
