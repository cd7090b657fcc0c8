import type { Command } from 'commander';
import { writeOutput } from '../../adapters/durable-file.ts';
import { receipt as receiptSchema } from '../../contract/proof.ts';
import { DomainError } from '../../domain/errors.ts';
import { type Receipt, verifyReceipt } from '../../domain/proof/receipt.ts';
import type { TransferEvent } from '../../domain/transfers/transfer.ts';
import { checkpointNow } from '../../processes/proof/checkpoint-now.ts';
import { makeReceipt } from '../../projections/proof/receipts.ts';
import { recordAccess } from '../program/access.ts';
import { EXIT } from '../program/exit-codes.ts';
import { note, print, printFacts, printJson, visible, write } from '../program/output.ts';
import { parseRequest, readJson } from '../program/parse.ts';
import { operator, withInstallation } from '../program/session.ts';
import { terminal } from '../program/terminal.ts';
import { readTrustedKeys, type TrustedKey, unlessReplaced } from './public-keys.ts';
import { waitForTree } from './wait-for-tree.ts';

export function addReceiptCommands(program: Command): void {
  const receipt = program
    .command('receipt')
    .description('print the receipt of an ended transfer: a proof of all of its events')
    .argument('<transfer-id>')
    .option('--account <account>', 'reject a transfer of another account')
    .option('--out <file>', 'write it to a file')
    .action(async (id: string, { account, out }: { account?: string; out?: string }) => {
      const made = await withInstallation(async (installation) => {
        const make = () => makeReceipt(installation, account ?? null, id);
        let answer = await make();
        if (answer.state === 'not_covered') {
          await waitForTree(installation);
          answer = await make();
        }
        if (answer.state === 'not_covered') {
          await checkpointNow(installation, operator());
          answer = await make();
        }
        if (answer.state !== 'ready')
          throw new DomainError(
            'receipt_not_ready',
            answer.state === 'open'
              ? `${id} has not ended: it has no receipt yet`
              : `No signed checkpoint covers the end of ${id} yet; try again in a moment`,
          );
        const read = { type: 'access.receipt_read', data: { transfer_id: id } } as const;
        await recordAccess(installation, read, answer.owner);
        return answer.receipt;
      });
      const text = `${JSON.stringify(made, null, 2)}\n`;
      if (out === undefined) return write(text);
      await writeOutput(out, text);
      note(`The receipt is in ${out}`);
    });

  receipt
    .command('verify')
    .description('verify a receipt offline; exit code 1 if it is not genuine')
    .argument('<file>')
    .requiredOption('--key <key>', 'public keys that you trust: a file in PEM, or NAME+ID+BASE64')
    .option('--json', 'one JSON document')
    .action(async (file: string, { key, json }: { key: string; json?: boolean }) => {
      const receipt = parseRequest(receiptSchema, await readJson(file), 'The receipt');
      await show(receipt, await readTrustedKeys(key), json);
    });
}

async function show(receipt: Receipt, keys: TrustedKey[], json?: boolean): Promise<void> {
  const signers = keys.map(({ publicKey }) => publicKey);
  const verdict = unlessReplaced(verifyReceipt(receipt, ...signers), keys);
  if (!verdict.ok) {
    terminal().exitCode = EXIT.failed;
    const { otherKey, problems } = verdict;
    if (json) return printJson({ verified: false, problems });
    for (const problem of problems) await print(visible(problem));
    return print(
      otherKey
        ? 'NOT VERIFIED: verify it with the key that the signature names, if you trust that key. ' +
            '`waybill audit verify --key` with your keys shows whether it follows from them'
        : 'NOT VERIFIED: this receipt proves nothing',
    );
  }
  const { head, keyId, events, isClosed } = verdict;
  const facts = factsOf(events.map(({ type, data }) => ({ type, data }) as TransferEvent));
  if (json)
    return printJson({
      verified: true,
      transfer_id: receipt.transfer_id,
      ...facts,
      steps_pending: !isClosed,
      checkpoint: { origin: head.origin, size: head.size, key_id: keyId },
    });
  await printFacts({
    transfer: receipt.transfer_id,
    ...facts,
    events: events.length,
    log: head.origin,
    'events in the log': head.size,
    'signed by': keyId,
  });
  await print(
    isClosed
      ? 'VERIFIED: the key signed a log that has exactly these events of the transfer'
      : 'VERIFIED: the key signed a log that has these events of the transfer. The outcomes of its ' +
          'steps after the end are not all in this receipt',
  );
}

/** Returns what the events say about the file. */
function factsOf(events: TransferEvent[]): Record<string, string | number | null> {
  const facts: Record<string, string | number | null> = {};
  for (const { type, data } of events) {
    if (type === 'transfer.created') {
      facts.source = data.source;
      facts.destination = data.destination;
      facts.created_at = data.created_at;
    } else if (type === 'transfer.completed') {
      facts.completed_at = data.completed_at;
      facts.size_bytes = data.size_bytes;
      facts.checksum_sha256 = data.checksum_sha256;
    } else if (type === 'transfer.failed') {
      facts.failed_at = data.failed_at;
      facts.error = data.error.code;
    } else if (type === 'transfer.cancelled') facts.cancelled_at = data.cancelled_at;
  }
  return facts;
}
