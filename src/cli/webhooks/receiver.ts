import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { Command } from 'commander';
import {
  type SignatureCheck,
  type SignedRequest,
  verifySignatures,
} from '../../adapters/webhooks/verification.ts';
import { aborted } from '../../concurrency/aborted.ts';
import { DomainError, fieldError } from '../../domain/errors.ts';
import { EXIT } from '../program/exit-codes.ts';
import { note, print, printJson, visible } from '../program/output.ts';
import { wholeNumber } from '../program/parse.ts';
import { readSecret, type SecretOptions, withSecret } from '../program/secret.ts';
import { terminal } from '../program/terminal.ts';

const HOST = '127.0.0.1';

interface ListenOptions extends SecretOptions {
  port: number;
  json?: boolean;
}

interface VerifyOptions extends SecretOptions {
  bodyFile: string;
  signature?: string;
  id?: string;
  timestamp?: string;
  webhookSignature?: string;
  json?: boolean;
}

/** Adds the commands for authors of receivers. They need no installation. */
export function addReceiverCommands(webhooks: Command): void {
  withSecret(
    webhooks
      .command('listen')
      .description(
        'receive and show deliveries on this machine until SIGINT; answers 401 if the secret ' +
          'does not verify one',
      )
      .option('--port <number>', '0 for any free port', wholeNumber(0, 65_535), 8090),
    'the secret of the webhook; without one, nothing is verified',
  )
    .option('--json', 'one JSON line a delivery')
    .action(listen);

  withSecret(
    webhooks
      .command('verify')
      .description(
        'check the signatures of a stored delivery; exit code 0 if all given ones are right',
      ),
    'the secret of the webhook',
  )
    .requiredOption('--body-file <file>', 'the exact bytes of the body; - reads stdin')
    .option('--signature <hex>', 'the header X-Service-Signature')
    .option('--id <id>', 'the header webhook-id')
    .option('--timestamp <seconds>', 'the header webhook-timestamp')
    .option('--webhook-signature <signatures>', 'the header webhook-signature')
    .option('--json', 'one JSON document')
    .action(verify);
}

const UNUSABLE_PORT: Partial<Record<string, string>> = {
  EADDRINUSE: 'is in use',
  EACCES: 'is not allowed for this user',
};

async function listen({ port, json, ...given }: ListenOptions): Promise<void> {
  const secret = await readSecret(given);
  using stop = terminal().stopSignal();
  const failed = Promise.withResolvers<never>();
  const server = createServer((request, response) => {
    take(request, response, secret, json).catch(failed.reject);
  });
  await once(server.listen(port, HOST), 'listening').catch((error: NodeJS.ErrnoException) => {
    const why = UNUSABLE_PORT[error.code ?? ''];
    if (why === undefined) throw error;
    throw new DomainError(
      'invalid_parameter',
      `Port ${port} ${why}: choose another with --port, or 0 for any free port`,
    );
  });
  const url = `http://${HOST}:${(server.address() as AddressInfo).port}/`;
  const sharedSecret = secret === undefined ? '' : ' --secret-file ...';
  note(`Listening at ${url}. To receive deliveries, set
WAYBILL_WEBHOOK_ALLOW_CIDRS=${HOST}/32 for the service and for this command:
\`waybill webhooks add --url ${url} --events transfer.completed,transfer.failed${sharedSecret}\``);
  try {
    await Promise.race([aborted(stop), failed.promise]);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** Answers a delivery, then shows it. Throws as `write` does. */
async function take(
  request: IncomingMessage,
  response: ServerResponse,
  secret: string | undefined,
  json = false,
): Promise<void> {
  const body = await buffer(request).catch(() => null);
  // An aborted request is not a delivery.
  if (body === null) return;
  const verifications =
    secret === undefined ? null : verifySignatures(secret, signedRequest(request, body));
  // During a rotation, X-Service-Signature uses the old secret and webhook-signature carries both.
  const verified = verifications?.some(({ objection }) => objection === null) ?? null;
  const statusCode = request.method !== 'POST' ? 405 : verified === false ? 401 : 200;
  response.writeHead(statusCode).end();
  if (statusCode === 405) return;
  const event = parsed(body);
  if (json)
    return printJson({
      received_at: new Date().toISOString(),
      verified,
      verifications,
      event,
      body: event ? null : String(body),
    });
  const { id = '-', type = '-', data = null } = event ?? {};
  const verdict = verified === null ? 'not verified' : verified ? 'verified' : 'REJECTED';
  await print(
    visible(`${id}  ${type}  ${verdict}  ${event ? JSON.stringify(data) : String(body)}`),
  );
  for (const { header, objection } of verifications ?? [])
    if (objection !== null) note(`  ${header}: ${objection}`);
  if (verifications?.length === 0) note('  The delivery has no signature');
}

function signedRequest({ headers }: IncomingMessage, body: Buffer): SignedRequest {
  const header = (name: string) => (typeof headers[name] === 'string' ? headers[name] : null);
  const [id, timestamp, signatures] = [
    header('webhook-id'),
    header('webhook-timestamp'),
    header('webhook-signature'),
  ];
  const standard =
    id !== null && timestamp !== null && signatures !== null ? { id, timestamp, signatures } : null;
  return { body, service: header('x-service-signature'), standard };
}

function parsed(body: Buffer): { id?: string; type?: string; data?: unknown } | null {
  try {
    const value: unknown = JSON.parse(String(body));
    return typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}

async function verify({
  bodyFile,
  signature,
  id,
  timestamp,
  webhookSignature,
  json,
  ...given
}: VerifyOptions): Promise<void> {
  const three = [id, timestamp, webhookSignature];
  const some = three.some((given) => given !== undefined);
  if (some && !three.every((given) => given !== undefined)) {
    throw fieldError('--id, --timestamp, --webhook-signature', 'belong together: give all three');
  }
  if (!some && signature === undefined)
    throw fieldError('--signature', 'is required, or the three webhook headers');
  if (bodyFile === '-' && given.secretFile === '-')
    throw fieldError('--secret-file', 'must be a file: stdin has the body');
  const secret = await readSecret(given);
  if (secret === undefined) throw fieldError('--secret-file', 'is required');
  const body = bodyFile === '-' ? await buffer(terminal().stdin()) : await readFile(bodyFile);
  const standard = some
    ? { id: id as string, timestamp: timestamp as string, signatures: webhookSignature as string }
    : null;
  const verifications = verifySignatures(secret, { body, service: signature ?? null, standard });
  const verified = verifications.every(({ objection }) => objection === null);
  if (!verified) terminal().exitCode = EXIT.failed;
  if (json) return printJson({ verified, verifications });
  for (const verification of verifications) await print(inWords(verification));
}

function inWords({ header, objection }: SignatureCheck): string {
  return objection === null ? `${header}: verified` : `${header}: NOT verified: ${objection}`;
}
