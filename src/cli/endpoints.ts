import type { Command } from 'commander';
import { openFileEndpoint } from '../adapters/files/open.ts';
import { ENDPOINT_CREDENTIALS } from '../adapters/vault.ts';
import {
  acceptHostKey,
  pauseEndpoint,
  removeEndpoint,
  resumeEndpoint,
} from '../commands/endpoints.ts';
import { saveEndpoint } from '../commands/save-endpoint.ts';
import { endpointRequest } from '../contract/endpoints/requests.ts';
import {
  addressIn,
  type Endpoint,
  hasHostKey,
  newHostKeysOf,
} from '../domain/endpoints/endpoint.ts';
import { type AnnouncedHostKey, hostKeysOf } from '../domain/endpoints/host-keys.ts';
import { nameOfVia, viaOf } from '../domain/endpoints/via.ts';
import { DomainError } from '../domain/errors.ts';
import {
  type EndpointCredentials,
  type EndpointSettings,
  protocolOf,
} from '../domain/protocols/index.ts';
import type { Installation } from '../installation.ts';
import { createKeyRecorder } from '../processes/endpoints/announced-keys.ts';
import {
  type EndpointConnectivity,
  endpointConnectivity,
} from '../processes/endpoints/connectivity.ts';
import { type EndpointTest, testEndpoint } from '../processes/endpoints/endpoint-test.ts';
import type { StepResult } from '../processes/endpoints/test-step.ts';
import { listEndpoints } from '../projections/catalog/queries.ts';
import { addLimitCommand } from './endpoint-limit.ts';
import { EXIT } from './program/exit-codes.ts';
import { createPrintQueue, note, print, printJson, printTable } from './program/output.ts';
import { parseRequest, readJson } from './program/parse.ts';
import { operator, withInstallation } from './program/session.ts';
import { failUntilVerdict, terminal } from './program/terminal.ts';

interface Json {
  json?: boolean;
}

export function addEndpointCommands(program: Command): void {
  const endpoints = program
    .command('endpoints')
    .description('configure, test and pause the servers that files are copied from and to');

  endpoints
    .command('add')
    .description(
      'configure an endpoint, or update the one of that name and replace its credentials',
    )
    .requiredOption('--file <file>', 'one endpoint as JSON; - reads stdin')
    .option('--json', 'one JSON document')
    .action(async ({ file, json }: { file: string } & Json) => {
      const request = parseRequest(
        endpointRequest,
        await readJson(file),
        file === '-' ? 'The endpoint' : file,
      );
      const { endpointId, created } = await withInstallation(({ commands }) =>
        saveEndpoint(commands, request, operator()),
      );
      if (json) await printJson({ id: endpointId, name: request.name, created });
      else await print(`${request.name} is ${created ? 'configured' : 'updated'} (${endpointId})`);
      if ('host_keys' in request && hostKeysOf(request).length === 0) {
        note(
          `Its host key is not accepted: \`waybill endpoints test ${request.name}\` shows it, ` +
            'and --accept-host-key accepts it',
        );
      }
    });

  endpoints
    .command('list')
    .description('list all endpoints: their settings, when each was last reached, and its state')
    .option('--json', 'one JSON line an endpoint')
    .action(async ({ json }: Json) => {
      const [all, health] = await withInstallation(({ sql }) =>
        Promise.all([listEndpoints(sql), endpointConnectivity(sql)]),
      );
      if (json)
        for (const endpoint of all)
          await printJson({ ...shown(endpoint), health: health.get(endpoint.endpoint_id) ?? null });
      else await printEndpoints(all, health);
    });

  endpoints
    .command('test')
    .description(
      'run every step that a transfer needs: resolve, connect (through its jump host or proxy), ' +
        'sign in, list, write, rename, read back, remove',
    )
    .argument('<name>', 'of the endpoint')
    .option('--accept-host-key', 'accept the host key that the server presents')
    .option('--json', 'one JSON document')
    .action((name: string, options: { acceptHostKey?: boolean } & Json) =>
      withInstallation((installation) => test(installation, name, options)),
    );

  endpoints
    .command('accept-host-key')
    .description('accept a host key that the verified server has announced, beside the others')
    .argument('<name>', 'of the endpoint')
    .argument('<fingerprint>', 'SHA256:... as `endpoints list --json` shows it')
    .option('--json', 'one JSON document')
    .action((name: string, fingerprint: string, options: Json) =>
      withInstallation((installation) => acceptAnnounced(installation, name, fingerprint, options)),
    );

  const change = (
    verb: string,
    description: string,
    done: string,
    work: (installation: Installation, id: string) => Promise<unknown>,
  ) =>
    endpoints
      .command(verb)
      .description(description)
      .argument('<name>', 'of the endpoint')
      .option('--json', 'one JSON document')
      .action(async (name: string, { json }: Json) => {
        const id = await withInstallation(async (installation) => {
          const { endpoint_id } = await find(installation, name);
          await work(installation, endpoint_id);
          return endpoint_id;
        });
        if (json) await printJson({ id, name, status: done });
        else await print(`${name} is ${done}`);
      });
  change('remove', 'remove an endpoint that no open transfer uses', 'removed', ({ commands }, id) =>
    removeEndpoint(commands, id, operator()),
  );
  change(
    'pause',
    'start no new transfers on an endpoint; those in progress continue',
    'paused',
    ({ commands }, id) => pauseEndpoint(commands, id, operator()),
  );
  change('resume', 'start transfers on a paused endpoint again', 'resumed', ({ commands }, id) =>
    resumeEndpoint(commands, id, operator()),
  );
  addLimitCommand(endpoints, find);
}

async function find({ sql }: Installation, name: string): Promise<Endpoint> {
  const endpoint = (await listEndpoints(sql)).find((candidate) => candidate.name === name);
  if (!endpoint)
    throw new DomainError(
      'not_found',
      `There is no endpoint named ${name}; \`waybill endpoints list\` shows them`,
    );
  return endpoint;
}

async function acceptAnnounced(
  installation: Installation,
  name: string,
  fingerprint: string,
  { json }: Json,
): Promise<void> {
  const configured = await find(installation, name);
  if (!newHostKeysOf(configured).some(({ sha256 }) => sha256 === fingerprint)) {
    throw new DomainError(
      'validation_failed',
      `${name} has no new host key ${fingerprint}; \`waybill endpoints test ${name} ` +
        '--accept-host-key` accepts the key that the server presents',
    );
  }
  const { endpoint_id } = configured;
  await acceptHostKey(installation.commands, endpoint_id, fingerprint, operator());
  if (json) await printJson({ id: endpoint_id, name, accepted: fingerprint });
  else await print(`The host key ${fingerprint} is accepted from now on, beside the others`);
}

async function test(
  installation: Installation,
  name: string,
  options: { acceptHostKey?: boolean } & Json,
): Promise<void> {
  failUntilVerdict();
  const { commands, vault, store, logger } = installation;
  const configured = await find(installation, name);
  const credentials = await vault.open<EndpointCredentials>(
    configured.credentials_record,
    ENDPOINT_CREDENTIALS,
  );
  const lines = createPrintQueue();
  const runTest = async (definition: Endpoint) => {
    const endpoint = await openFileEndpoint(definition, credentials);
    return testEndpoint({ settings: definition.settings, endpoint }, (step: StepResult) => {
      if (!options.json) lines.add(() => printStep(step));
    });
  };
  if (!options.json) await print(`${name} at ${addressOf(configured.settings)}`);

  let accepted = false;
  let result = await runTest(configured);
  if (options.acceptHostKey && result.fingerprint !== null && isNewKey(result)) {
    const { state } = await acceptHostKey(
      commands,
      configured.endpoint_id,
      result.fingerprint,
      operator(),
    );
    accepted = true;
    const news = `The host key ${result.fingerprint} is accepted from now on`;
    if (!options.json) lines.add(() => print(news));
    result = await runTest(state);
  }
  await createKeyRecorder({ store, logger })(configured, result.announced, operator());
  if (result.ok) terminal().exitCode = EXIT.done;
  await lines.printed();
  if (options.json) await printJson({ name, accepted, ...result });
  else if (isNewKey(result)) {
    note(
      '  No password was sent. Compare the key with your partner, then accept it: ' +
        `waybill endpoints test ${name} --accept-host-key`,
    );
  } else if (!options.json) noteNewHostKeys(configured, result.announced);
}

/** Notes the announced keys that are not accepted, and how to accept them. */
function noteNewHostKeys({ name, settings }: Endpoint, announced: AnnouncedHostKey[]): void {
  const accepted = hasHostKey(settings) ? hostKeysOf(settings).map(({ sha256 }) => sha256) : [];
  for (const { sha256, key_type, verified_by } of announced) {
    if (accepted.includes(sha256) || !accepted.includes(verified_by)) continue;
    note(
      `  The verified server has announced another host key: ${key_type} ${sha256}\n` +
        `  To accept it: waybill endpoints accept-host-key ${name} ${sha256}`,
    );
  }
}

/** Returns true if the server itself, not a jump host, presented a key that is not accepted. */
function isNewKey(result: EndpointTest): boolean {
  const failure = failureOf(result);
  return failure?.step === 'connect' && failure.code === 'host_key_mismatch';
}

function failureOf({ steps }: EndpointTest) {
  const last = steps.at(-1);
  return last?.ok === false ? last : null;
}

function printStep(result: StepResult): Promise<void> {
  const line =
    `${result.ok ? 'ok  ' : 'FAIL'}  ${result.step.padEnd(8)}  ` +
    `${`${result.ms} ms`.padStart(9)}  `;
  return print(
    result.ok ? line + result.detail : `${line}${result.message}\n      ${result.advice}`,
  );
}

function shown(endpoint: Endpoint) {
  const {
    endpoint_id,
    name,
    settings,
    sign_in,
    max_connections,
    accounts,
    overwrite,
    bandwidth = null,
    paused,
    unreachable_since,
  } = endpoint;
  return {
    id: endpoint_id,
    name,
    ...settings,
    ...(protocolOf(settings).via && { via: viaOf(settings) }),
    ...(hasHostKey(settings) && {
      host_keys: hostKeysOf(settings),
      announced_host_keys: newHostKeysOf(endpoint),
    }),
    sign_in,
    max_connections,
    accounts,
    overwrite,
    bandwidth,
    paused,
    unreachable_since,
  };
}

function printEndpoints(
  endpoints: Endpoint[],
  health: Map<string, EndpointConnectivity>,
): Promise<void> {
  const rows = endpoints.map((endpoint) => [
    endpoint.name,
    endpoint.settings.protocol,
    addressOf(endpoint.settings),
    endpoint.sign_in,
    endpoint.max_connections,
    health.get(endpoint.endpoint_id)?.last_success_at ?? null,
    stateOf(endpoint, health.get(endpoint.endpoint_id)),
  ]);
  const none = 'There are no endpoints; `waybill endpoints add --file FILE` configures one';
  return printTable(
    ['NAME', 'PROTOCOL', 'ADDRESS', 'SIGN-IN', 'CONNECTIONS', 'LAST REACHED', 'STATE'],
    rows,
    none,
  );
}

function addressOf(settings: EndpointSettings): string {
  const user = 'username' in settings ? `${settings.username}@` : '';
  const via = viaOf(settings);
  return `${user}${addressIn(settings)}${via ? ` via ${nameOfVia(via)}` : ''}`;
}

function stateOf(endpoint: Endpoint, health: EndpointConnectivity | undefined): string {
  const { paused, unreachable_since, settings } = endpoint;
  const states = [
    paused ? 'paused' : null,
    unreachable_since === null ? null : `unreachable since ${unreachable_since}`,
    hasHostKey(settings) && settings.host_key_sha256 === null
      ? 'host key not accepted'
      : (health?.error?.message ?? null),
    newHostKeysOf(endpoint).length > 0 ? 'a new host key is announced' : null,
  ].filter((state) => state !== null);
  return states.length === 0 ? 'ready' : states.join(', ');
}
