import { randomFillSync } from 'node:crypto';
import { mkdir, open, rename, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Agent, fetch } from 'undici';
import { hashApiKey } from '../commands/api-key.ts';
import type { Cause } from '../commands/handle.ts';
import { createKey } from '../commands/keys.ts';
import { saveEndpoint } from '../commands/save-endpoint.ts';
import { endpointRequest } from '../contract/endpoints/requests.ts';
import { DEFAULT_ACCOUNT } from '../domain/account.ts';
import { DomainError } from '../domain/errors.ts';
import { LIFETIME } from '../domain/key.ts';
import type { Scope } from '../domain/scope.ts';
import type { Installation } from '../installation.ts';
import { listEndpoints, listKeys } from '../projections/catalog/queries.ts';
import type { DemoKeyName, DemoServerName, DemoState } from './demo-state.ts';
import { type DemoServer, fingerprintOf, startDemoServer } from './sftp-server.ts';

const DEMO_FILE = 'outbox/invoices.zip';
export const DEMO_FILE_BYTES = 128 * 1024 * 1024;

const SERVERS: DemoServerName[] = ['hospital', 'bank'];
const HOST = '127.0.0.1';
const SCOPES: Record<DemoKeyName, Scope[]> = { api: ['transfers:write'], console: ['admin'] };
const CHUNK_BYTES = 4 * 1024 * 1024;
/** A demo key that expires sooner than this is replaced, so a copied key stays useful. */
const KEY_LEFT_MS = 24 * 3_600_000;

/**
 * Starts the SFTP servers at their previous ports, or at others if those are in use. Updates the
 * ports in `state`.
 */
export async function startDemoServers(folder: string, state: DemoState): Promise<DemoServer[]> {
  const started: DemoServer[] = [];
  try {
    for (const name of SERVERS) {
      const options = { ...state.servers[name], root: join(folder, name) };
      const server = await startDemoServer(options).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EADDRINUSE') throw error;
        return startDemoServer({ ...options, port: 0 });
      });
      started.push(server);
      state.servers[name].port = server.port;
    }
    return started;
  } catch (error) {
    await Promise.all(started.map((server) => server.close()));
    throw error;
  }
}

/**
 * Configures the servers as endpoints with accepted host keys. Skips those that are up to date.
 * Throws `precondition_failed` if the installation has an endpoint of its own with such a name:
 * files for a partner would go to the demo.
 */
export async function configureDemoEndpoints(
  { commands, sql }: Installation,
  state: DemoState,
  cause: Cause,
): Promise<void> {
  const configured = await listEndpoints(sql);
  const settingsOf = (name: DemoServerName) =>
    configured.find((endpoint) => endpoint.name === name)?.settings as
      | Record<string, unknown>
      | undefined;
  const own = SERVERS.find((name) => {
    const settings = settingsOf(name);
    return (
      settings && (settings.host !== HOST || settings.username !== state.servers[name].username)
    );
  });
  if (own)
    throw new DomainError(
      'precondition_failed',
      `The installation has an endpoint ${own} that is not the demo's. Start the demo with another ` +
        'WAYBILL_DATA_DIR, and without DATABASE_URL',
    );
  for (const name of SERVERS) {
    const { port, hostKey, username, password } = state.servers[name];
    const wanted = {
      protocol: 'sftp',
      host: HOST,
      port,
      base_path: '/',
      username,
      host_key_sha256: fingerprintOf(hostKey),
    };
    const settings = settingsOf(name);
    if (settings && Object.entries(wanted).every(([key, value]) => settings[key] === value))
      continue;
    await saveEndpoint(commands, endpointRequest.parse({ ...wanted, name, password }), cause);
  }
}

/** Keeps the keys of the last start if they are valid. Else creates new ones in `state`. */
export async function provideDemoKeys(
  { commands, sql }: Installation,
  state: DemoState,
  cause: Cause,
): Promise<void> {
  const known = await listKeys(sql);
  for (const name of Object.keys(SCOPES) as DemoKeyName[]) {
    const kept = state.keys[name];
    const key =
      kept &&
      known.find(({ key_id, sha256 }) => key_id === kept.id && sha256 === hashApiKey(kept.key));
    const left = key?.expires_at
      ? Date.parse(key.expires_at) - Date.now()
      : Number.POSITIVE_INFINITY;
    if (key?.status === 'active' && left > KEY_LEFT_MS) continue;
    const request = {
      name: `demo ${name}`,
      scopes: SCOPES[name],
      account: DEFAULT_ACCOUNT,
      expires_in: LIFETIME.default,
    };
    const { id, key: secret } = await createKey(commands, request, cause, { allowNever: false });
    state.keys[name] = { id, key: secret };
  }
}

/** Creates the file of the demo transfer, large enough to show progress. */
export async function makeDemoFile(folder: string): Promise<void> {
  const file = join(folder, 'hospital', DEMO_FILE);
  if ((await stat(file).catch(() => null))?.size === DEMO_FILE_BYTES) return;
  await mkdir(dirname(file), { recursive: true });
  const partial = await open(`${file}.new`, 'w');
  try {
    const chunk = Buffer.alloc(CHUNK_BYTES);
    for (let written = 0; written < DEMO_FILE_BYTES; written += CHUNK_BYTES)
      await partial.write(randomFillSync(chunk));
  } finally {
    await partial.close();
  }
  await rename(`${file}.new`, file);
}

/**
 * Creates a transfer as any client does. Returns its id; throws with the API's error.
 * `certificate` is the service's own, in PEM form.
 */
export async function createDemoTransfer(
  baseUrl: string,
  key: string,
  destination: string,
  certificate: string | null,
): Promise<string> {
  // The client connects by IP address, which certificates rarely name. So it accepts only this
  // certificate, for any name.
  const tls =
    certificate === null
      ? {}
      : { ca: certificate, allowPartialTrustChain: true, checkServerIdentity: () => undefined };
  const agent = new Agent({ connect: tls });
  try {
    const response = await fetch(`${baseUrl}/transfers`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: transferBody(destination),
      dispatcher: agent,
    });
    const answer = (await response.json()) as { id?: string; detail?: string };
    if (!answer.id) throw new Error(`The API answered ${response.status}: ${answer.detail}`);
    return answer.id;
  } finally {
    await agent.close();
  }
}

/** Returns a body of POST /v1/transfers. `destination` is a name in the bank's inbox. */
export function transferBody(destination: string): string {
  return JSON.stringify({
    source_uri: `sftp://hospital/${DEMO_FILE}`,
    destination_uri: `sftp://bank/inbox/${destination}`,
  });
}
