import { openFileEndpoint } from '../../adapters/files/open.ts';
import { createBell } from '../../bell.ts';
import { examineEndpoint, type StepResult } from '../../processes/doctor.ts';
import type { Access } from '../../processes/endpoint-access.ts';
import type { TestLine } from './endpoint-schemas.ts';

const LOOK_MS = 60_000;

/** The steps of an examination as they happen, and its result, as lines of JSON. One that nobody reads on goes on to its end: it cleans up. */
export async function* testLines({ definition, credentials }: Access): AsyncGenerator<string> {
  const lines: TestLine[] = [];
  const bell = createBell();
  const tell = (line: TestLine) => {
    lines.push(line);
    bell.ring();
  };
  const endpoint = await openFileEndpoint(definition, credentials);
  void examineEndpoint({ settings: definition.settings, endpoint }, (step) => tell(toLine(step))).then(
    ({ ok, fingerprint, write_bps, read_bps }) => tell({ type: 'result', ok, fingerprint, write_bps, read_bps }),
  );
  for (;;) {
    await bell.wait(LOOK_MS);
    for (const line of lines.splice(0)) {
      yield `${JSON.stringify(line)}\n`;
      if (line.type === 'result') return;
    }
  }
}

function toLine(step: StepResult): TestLine {
  return { type: 'step', at: new Date().toISOString(), ...step };
}
