// A receiver of webhooks: node receiver.mjs, with the secret in WEBHOOK_SECRET. Node 20 or later, no packages.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

const { WEBHOOK_SECRET: secret, HOST: host = '127.0.0.1', PORT: port = '8091' } = process.env;
if (!secret) throw new Error('WEBHOOK_SECRET is not set');
const MAX_BYTES = 1024 * 1024;
// In real life both are in a database, written in one transaction with what the event does: receiver.py shows how.
const handled = new Set();
const newest = new Map();

const server = createServer((request, response) => {
  receive(request).then(
    (status) => response.writeHead(status).end(),
    () => response.destroy(),
  );
});
server.listen(Number(port), host, () =>
  console.log(`Listening at http://${host}:${server.address().port}/`),
);

/** The status to answer with, within 10 seconds: what takes longer goes into a queue of one's own first. */
async function receive(request) {
  if (request.method !== 'POST') return 405;
  if (!(Number(request.headers['content-length']) <= MAX_BYTES)) return 413;
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  // The bytes as they came: parsed and written again, they would not be the same.
  const body = Buffer.concat(chunks);
  if (!isAuthentic(body, String(request.headers['x-service-signature']))) return 401;
  const event = JSON.parse(body.toString());
  // A delivery may come twice, with the same event id.
  if (!handled.has(event.id)) handle(event);
  handled.add(event.id);
  return 200;
}

function isAuthentic(body, signature) {
  const expected = Buffer.from(createHmac('sha256', secret).update(body).digest('hex'));
  const given = Buffer.from(signature);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

/** Deliveries may come out of order: of two events of a transfer, the one with the greater id is the newer. */
function handle({ id, type, data }) {
  const { transfer_id: transfer = '' } = data;
  const late = transfer !== '' && id < (newest.get(transfer) ?? '');
  if (!late) newest.set(transfer, id);
  console.log(`${id} ${type} ${transfer}${late ? ' (late: a newer event was handled)' : ''}`);
}
