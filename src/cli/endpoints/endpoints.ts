import type { Command } from 'commander';
import {
  acceptHostKey,
  pauseEndpoint,
  removeEndpoint,
  resumeEndpoint,
} from '../../commands/endpoints.ts';
import { saveEndpoint } from '../../commands/save-endpoint.ts';
import { endpointQuery, endpointRequest } from '../../contract/endpoints/requests.ts';
import { toEndpoint } from '../../contract/endpoints/views.ts';
import { type Endpoint, newHostKeysOf } from '../../domain/endpoints/endpoint.ts';
import { DomainError } from '../../domain/errors.ts';
import { hostKeysOf } from '../../domain/protocols/host-keys.ts';
import type { Installation } from '../../installation.ts';
import { endpointConnectivity } from '../../processes/endpoints/connectivity.ts';
import { listEndpoints } from '../../projections/catalog/queries.ts';
import { note, print, printJson } from '../program/output.ts';
import { parseRequest, readJson } from '../program/parse.ts';
import { fromCatalog } from '../program/read-model.ts';
import { operator, withInstallation } from '../program/session.ts';
import { addLimitCommand } from './limit.ts';
import { printEndpoints } from './show.ts';
import { testAndPrint } from './test.ts';

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
      const { endpointId, created } = await withInstallation(
        ({ commands }) => saveEndpoint(commands, request, operator()),
        { begins: true },
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
    .description('list endpoints: their settings, when each was last reached, and its state')
    .option('--q <words>', 'words that are part of the name, protocol, host, folder, bucket or id')
    .option('--json', 'one JSON line an endpoint, as the API answers')
    .action(async ({ json, q: words }: Json & { q?: string }) => {
      const { q } = parseRequest(endpointQuery, { q: words }, 'The filter');
      const [found, health] = await withInstallation((installation) =>
        Promise.all([
          fromCatalog(installation, (sql) => listEndpoints(sql, q)),
          endpointConnectivity(installation.sql),
        ]),
      );
      if (json)
        for (const endpoint of found)
          await printJson(toEndpoint(endpoint, health.get(endpoint.endpoint_id), null));
      else await printEndpoints(found, health, q !== undefined);
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
      withInstallation(async (installation) =>
        testAndPrint(installation, await find(installation, name), options),
      ),
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
  change(
    'remove',
    'remove an endpoint that no open transfer and no active flow uses',
    'removed',
    ({ commands }, id) => removeEndpoint(commands, id, operator()),
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

async function find(installation: Installation, name: string): Promise<Endpoint> {
  const [endpoint] = await fromCatalog(installation, async (sql) =>
    (await listEndpoints(sql)).filter((candidate) => candidate.name === name),
  );
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
