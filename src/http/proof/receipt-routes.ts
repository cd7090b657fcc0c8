import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { pause } from '../../concurrency/pause.ts';
import * as schemas from '../../contract/proof.ts';
import { transferParams } from '../../contract/transfers/requests.ts';
import { DomainError } from '../../domain/errors.ts';
import type { Receipt } from '../../domain/proof/receipt.ts';
import { makeReceipt, type ReceiptAnswer } from '../../projections/proof/receipts.ts';
import type { AccessRecorder } from '../access-log/recorder.ts';
import { disconnectSignal } from '../answers/disconnect.ts';
import { clientOf } from '../auth/client.ts';
import { responses } from '../openapi/documentation.ts';

const LOOK_MS = 500;
/** Retry-After, in seconds: the next checkpoint comes within a minute. */
const RETRY_SECONDS = 15;

const WAITS_FOR: Record<Exclude<ReceiptAnswer['state'], 'ready'>, string> = {
  open: 'The transfer has not ended: a receipt proves its whole history',
  not_covered: 'No signed checkpoint covers the end of the transfer yet: it takes up to a minute',
};

export interface ReceiptDeps {
  sql: Sql;
  store: EventStore;
  access: AccessRecorder;
}

export function receiptRoutes({ access, ...deps }: ReceiptDeps): FastifyPluginAsyncZod {
  return async (app) => {
    app.route({
      method: 'GET',
      url: '/transfers/:transfer_id/receipt',
      config: { scope: 'transfers:read' },
      schema: {
        operationId: 'getReceipt',
        summary: 'Get the receipt of an ended transfer',
        description:
          'Proves every event of the transfer. A receipt is verified with the public key alone, ' +
          'without this service. Until a checkpoint covers the end of the transfer, the answer is ' +
          '409 with `Retry-After`.',
        tags: ['Transfers'],
        params: transferParams,
        querystring: schemas.receiptQuery,
        response: responses({ 200: ['The receipt', schemas.receipt] }, [
          'invalid_parameter',
          'unknown_field',
          'not_found',
          'receipt_not_ready',
        ]),
      },
      async handler(request, reply): Promise<Receipt> {
        const { accountId: account_id } = clientOf(request);
        const { transfer_id } = request.params;
        const signal = disconnectSignal(reply);
        const deadline = performance.now() + request.query.wait * 1_000;
        for (;;) {
          const answer = await makeReceipt(deps, account_id, transfer_id);
          if (answer.state === 'ready') {
            access.transferRead(request, 'receipt', { transfer_id, account_id });
            return answer.receipt;
          }
          if (signal.aborted || performance.now() + LOOK_MS > deadline) {
            void reply.header('retry-after', String(RETRY_SECONDS));
            throw new DomainError('receipt_not_ready', WAITS_FOR[answer.state]);
          }
          await pause(LOOK_MS, signal);
        }
      },
    });
  };
}
