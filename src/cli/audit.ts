import { type Command, InvalidArgumentError } from 'commander';
import type { Batch } from '../adapters/event-store/port.ts';
import { createChainVerifier } from '../commands/chain.ts';
import { toAuditEvent } from '../contract/events.ts';
import type { Installation } from '../installation.ts';
import { EXIT } from './exit-codes.ts';
import { print, printJson } from './output.ts';
import { withInstallation } from './session.ts';

const BATCH = 1_000;

export function addAuditCommands(program: Command): void {
  const audit = program.command('audit').description('the whole log, for auditors');

  audit
    .command('export')
    .description('print all stored events, one JSON line each, oldest first')
    .option('--from <position>', 'start after this position', position)
    .action(({ from }: { from?: bigint }) =>
      withInstallation(async (installation) => {
        for await (const { events } of readLog(installation, from ?? null))
          for (const event of events) await printJson(toAuditEvent(event));
      }),
    );

  audit
    .command('verify')
    .description('check the hash chain and order of every stream; exit code 1 if one is broken')
    .option('--json', 'JSON lines: each fault, then the result')
    .action(({ json }: { json?: boolean }) =>
      withInstallation(async (installation) => {
        const verifier = createChainVerifier();
        let [events, broken] = [0, 0];
        for await (const batch of readLog(installation, null)) {
          for (const event of batch.events) {
            events++;
            for (const problem of verifier.check(event)) {
              broken++;
              const { id, stream, revision } = event;
              if (json)
                await printJson({
                  event_id: id,
                  stream,
                  revision,
                  position: event.position,
                  problem,
                });
              else await print(`${stream} revision ${revision} (${id}): ${problem}`);
            }
          }
        }
        if (broken > 0) process.exitCode = EXIT.failed;
        if (json) await printJson({ events, streams: verifier.streams(), broken });
        else
          await print(
            `${events} events in ${verifier.streams()} streams: ` +
              (broken === 0 ? 'every chain is intact' : `${broken} faults`),
          );
      }),
    );
}

/** Reads the log up to its current end. */
async function* readLog({ store }: Installation, from: bigint | null): AsyncGenerator<Batch> {
  const stop = new AbortController();
  try {
    for await (const batch of store.subscribe({ from, signal: stop.signal, batchSize: BATCH })) {
      yield batch;
      if (batch.caughtUp) return;
    }
  } finally {
    stop.abort();
  }
}

function position(text: string): bigint {
  if (!/^\d{1,19}$/.test(text))
    throw new InvalidArgumentError('It must be a position: a whole number.');
  return BigInt(text);
}
