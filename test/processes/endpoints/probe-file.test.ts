import { expect, onTestFinished, test, vi } from 'vitest';
import { abortable } from '../../../src/adapters/files/abort.ts';
import {
  type DestinationFile,
  type FileEndpoint,
  FileError,
  type SourceFile,
} from '../../../src/adapters/files/port.ts';
import type { EndpointSettings } from '../../../src/domain/protocols/index.ts';
import { testWithProbeFile } from '../../../src/processes/endpoints/probe-file.ts';
import { createStep, type StepResult } from '../../../src/processes/endpoints/test-step.ts';

interface Behaviour {
  limitMs?: number;
  write?: (signal: AbortSignal) => Promise<unknown>;
  commit?: (signal: AbortSignal) => Promise<unknown>;
}

/** Tests an endpoint in memory. Returns the steps, and the calls that end what was opened. */
async function probe({ limitMs = 60_000, write, commit }: Behaviour) {
  const written = new Uint8Array(4 * 1024 * 1024);
  const calls: string[] = [];
  const steps: StepResult[] = [];
  const endpoint = {
    async openDestination(_path, { signal }) {
      return {
        chunkSize: 1024 * 1024,
        async write(offset, data) {
          written.set(data, offset);
          await write?.(signal);
        },
        async commit() {
          await commit?.(signal);
          return { size: written.length, destinationChecksum: 'none', atomicReplace: true };
        },
        close: async () => void calls.push('close'),
      } as Partial<DestinationFile> as DestinationFile;
    },
    openSource: async () =>
      ({
        read: async (_offset, target) => target.set(written),
        close: async () => undefined,
      }) as Partial<SourceFile> as SourceFile,
    remove: async () => void calls.push('remove'),
    removeLeftovers: async () => void calls.push('removeLeftovers'),
  } as Partial<FileEndpoint> as FileEndpoint;
  const settings = { protocol: 'sftp', base_path: '/' } as EndpointSettings;
  const step = createStep(settings, (result) => steps.push(result), { limitMs });
  await testWithProbeFile({ settings, endpoint, base: '/' }, step, {
    write_bps: null,
    read_bps: null,
  }).catch(() => undefined);
  return { steps: steps.map(({ step, ok }) => `${step}: ${ok}`), calls };
}

const silence = (signal: AbortSignal) => abortable(new Promise(() => {}), signal, 'commit');

test('a failed write closes its upload before the leftovers are removed', async () => {
  const write = () => Promise.reject(new FileError('disk_full', 'transfer', 'No space left'));
  expect(await probe({ write })).toEqual({
    steps: ['write: false'],
    calls: ['close', 'removeLeftovers'],
  });
});

test('the rename has a time limit of its own', async () => {
  // The clock of this test is not that of the machine.
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const pause = () => new Promise((resolve) => setTimeout(resolve, 300));
  let writes = 0;
  const probing = probe({
    limitMs: 500,
    write: () => (writes++ === 0 ? pause() : Promise.resolve()),
    commit: (signal) => abortable(pause(), signal, 'commit'),
  });
  await vi.advanceTimersByTimeAsync(600);
  expect(await probing).toEqual({
    steps: ['write: true', 'rename: true', 'read: true', 'remove: true'],
    calls: ['remove', 'close'],
  });
});

test('a rename without an answer fails in time', async () => {
  expect(await probe({ limitMs: 300, commit: silence })).toEqual({
    steps: ['write: true', 'rename: false'],
    calls: ['close', 'removeLeftovers'],
  });
});
