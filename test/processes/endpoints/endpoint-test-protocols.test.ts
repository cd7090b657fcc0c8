import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openFileEndpoint } from '../../../src/adapters/files/open.ts';
import { endpointRequest } from '../../../src/contract/endpoints/requests.ts';
import { newHostKey } from '../../../src/dev/sftp-server.ts';
import type { ProtocolName } from '../../../src/domain/protocols/index.ts';
import { TRANSFER_ERRORS, type TransferErrorCode } from '../../../src/domain/transfers/errors.ts';
import { type EndpointTest, testEndpoint } from '../../../src/processes/endpoints/endpoint-test.ts';
import { accessOf } from '../../../src/processes/endpoints/open-endpoint.ts';
import { startRelay } from '../../adapters/files/azure/relay.ts';
import {
  ENDPOINT_KINDS,
  ENDPOINT_NAMES,
  type EndpointName,
  type TestEndpoint,
} from '../../support/file-servers/endpoints.ts';
import { createCertificates } from '../../support/network/certificates.ts';
import { debianPackages } from '../../support/programs/debian.ts';

const STEPS = ['resolve', 'connect', 'sign_in', 'list', 'write', 'rename', 'read', 'remove'];
const MAKE_THE_FOLDER = "Create the folder on the server, or correct the endpoint's `base_path`.";
const openssl = await debianPackages(['openssl'], ['/usr/bin/openssl']);

async function examine(request: Record<string, unknown>): Promise<EndpointTest> {
  const { definition, credentials } = accessOf(
    endpointRequest.parse({ name: 'patient', ...request }),
  );
  const endpoint = await openFileEndpoint(definition, credentials);
  return testEndpoint({ settings: definition.settings, endpoint }, () => undefined);
}

/** Expects that all earlier steps passed, that no step follows, and that the advice is right. */
function expectFailure(
  examination: EndpointTest,
  step: string,
  code: TransferErrorCode,
  message: string | RegExp,
  advice: string = TRANSFER_ERRORS[code].advice,
): void {
  expect(examination.steps).toEqual([
    ...STEPS.slice(0, STEPS.indexOf(step)).map((before) =>
      expect.objectContaining({ step: before, ok: true }),
    ),
    {
      step,
      ok: false,
      ms: expect.any(Number),
      code,
      message: expect.stringMatching(message),
      advice,
    },
  ]);
  expect(examination.ok).toBe(false);
}

/** The endpoint's folder or prefix, as its requests name it. */
function below({ request }: TestEndpoint, folder: string): Record<string, unknown> {
  return 'base_path' in request
    ? { ...request, base_path: `${request.base_path}/${folder}` }
    : { ...request, prefix: `${folder}/` };
}

const WRONG_CREDENTIALS: Record<EndpointName, Record<string, string>[]> = {
  sftp: [{ private_key: newHostKey() }],
  ftps: [{ password: 'not it' }, { username: 'nobody-of-ours' }],
  's3-ceph': [{ secret_access_key: 'not it' }, { access_key_id: 'nobody-of-ours' }],
  's3-strict': [{ secret_access_key: 'not it' }, { access_key_id: 'nobody-of-ours' }],
  azure: [{ account_key: randomBytes(32).toString('base64') }],
};

/** What is missing, and the advice for it. */
const NOWHERE: Record<ProtocolName, { changes: Record<string, string>; advice: string }> = {
  sftp: { changes: { base_path: '/nowhere/at/all' }, advice: MAKE_THE_FOLDER },
  ftps: { changes: { base_path: '/nowhere/at/all' }, advice: MAKE_THE_FOLDER },
  s3: { changes: { bucket: 'nowhere' }, advice: TRANSFER_ERRORS.destination_not_found.advice },
  azure: {
    changes: { container: 'nowhere' },
    advice: TRANSFER_ERRORS.destination_not_found.advice,
  },
};

// SFTP has further tests in endpoint-test.test.ts.
describe.each(ENDPOINT_NAMES)('the test of an endpoint: %s', (name) => {
  const { whyNot, protocol, start } = ENDPOINT_KINDS[name];
  const steps = ['s3', 'azure'].includes(protocol)
    ? STEPS.filter((step) => step !== 'rename')
    : STEPS;
  let server: TestEndpoint;

  beforeAll(async () => {
    if (whyNot === null) server = await start();
  });
  afterAll(() => server?.stop());

  test('runs every step on a working endpoint, and leaves nothing behind', async (ctx) => {
    if (whyNot !== null) return ctx.skip(whyNot);
    await server.put('folder/file', Buffer.from('content'));
    const examination = await examine(below(server, 'folder'));
    expect(examination.steps).toEqual(
      steps.map((step) => expect.objectContaining({ step, ok: true })),
    );
    expect(examination).toMatchObject({
      ok: true,
      write_bps: expect.any(Number),
      read_bps: expect.any(Number),
    });
    expect(examination.steps).toContainEqual(
      expect.objectContaining({
        step: 'list',
        detail: expect.stringMatching(/folder\/? has 1 entry$/),
      }),
    );
    expect(await server.names('folder')).toEqual(['folder/file']);
  });

  test('fails at the sign-in with wrong credentials', async (ctx) => {
    if (whyNot !== null) return ctx.skip(whyNot);
    for (const wrong of WRONG_CREDENTIALS[name]) {
      expectFailure(
        await examine({ ...server.request, ...wrong }),
        'sign_in',
        'auth_failed',
        /^Authentication failed(: the server (computed another signature|does not know)|$)/,
      );
    }
  });

  test('fails for a place that does not exist', async (ctx) => {
    if (whyNot !== null) return ctx.skip(whyNot);
    const { changes, advice } = NOWHERE[protocol];
    expectFailure(
      await examine({ ...server.request, ...changes }),
      'list',
      'source_not_found',
      /nowhere/,
      advice,
    );
  });

  test('fails if nothing may be written', async (ctx) => {
    if (whyNot !== null) return ctx.skip(whyNot);
    const readOnly = await start({ readOnly: true });
    try {
      expectFailure(await examine(readOnly.request), 'write', 'permission_denied', /./);
    } finally {
      await readOnly.stop();
    }
  });
});

describe('the test of an endpoint with an unknown certificate', () => {
  const whyNotOver = (name: EndpointName) =>
    ENDPOINT_KINDS[name].whyNot ?? (openssl.available ? null : openssl.reason);

  async function expectUnknown(request: Record<string, unknown>): Promise<void> {
    const unknown = await examine({ ...request, ca_pem: undefined });
    expectFailure(unknown, 'connect', 'tls_error', /certificate/);
    expect(unknown.fingerprint).toMatch(/^([0-9A-F]{2}:){31}[0-9A-F]{2}$/);
    expect(await examine(request)).toMatchObject({ ok: true, fingerprint: unknown.fingerprint });
  }

  test('fails over FTPS', async (ctx) => {
    const whyNot = whyNotOver('ftps');
    if (whyNot !== null) return ctx.skip(whyNot);
    const server = await ENDPOINT_KINDS.ftps.start();
    await expectUnknown(server.request).finally(server.stop);
  });

  test.for(['s3-strict', 'azure'] as const)('fails over https: %s', async (name, ctx) => {
    const whyNot = whyNotOver(name);
    if (whyNot !== null) return ctx.skip(whyNot);
    const server = await ENDPOINT_KINDS[name].start();
    const { caPem, valid } = await createCertificates();
    const url = new URL(String(server.request.endpoint_url));
    const relay = await startRelay(Number(url.port), { tls: valid });
    try {
      await expectUnknown({
        ...server.request,
        endpoint_url: `https://127.0.0.1:${relay.port}${url.pathname.replace(/\/$/, '')}`,
        ca_pem: caPem,
      });
    } finally {
      relay.close();
      await server.stop();
    }
  });
});
