import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { openFileEndpoint } from '../../../src/adapters/files/open.ts';
import type { EndpointConfigured } from '../../../src/domain/endpoints/endpoint.ts';
import type { NewEvent } from '../../../src/domain/events/event.ts';

const file = new URL('../../http/endpoints/stored-endpoints.json', import.meta.url);
const { endpoints } = JSON.parse(readFileSync(file, 'utf8')) as {
  endpoints: { name: string; events: NewEvent[] }[];
};

// Requests no longer accept such settings, but an older log may contain them.
test.each(['odd-azure'])('%s fails as an unreachable endpoint', async (name) => {
  const recorded = endpoints.find((endpoint) => endpoint.name === name);
  const definition = recorded?.events[0]?.data as EndpointConfigured;
  const endpoint = await openFileEndpoint(definition, { account_key: 'a2V5' });
  const failure = {
    name: 'FileError',
    code: 'connection_failed',
    message: expect.stringContaining('settings of the endpoint cannot be used'),
  };
  const signal = AbortSignal.timeout(10_000);
  await expect(endpoint.probe(signal)).rejects.toMatchObject(failure);
  await expect(endpoint.list('', signal)).rejects.toMatchObject(failure);
  await expect(endpoint.openSource('a', signal)).rejects.toMatchObject(failure);
  await endpoint.close();
});
