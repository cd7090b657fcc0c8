import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, test } from 'vitest';
import {
  expectFlows,
  openWorkshop,
  output,
  patternsIn,
  type Workshop,
} from '../support/clients/generated-clients.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { npmPackages } from '../support/programs/npm-package.ts';
import { whyNo } from '../support/programs/why-no.ts';

const nswag = await npmPackages(resolve(import.meta.dirname, '../support/clients/nswag'));
const reason = nswag.available ? whyNo('dotnet') : nswag.reason;

describeWithPostgres('a client in C#', () => {
  let api: TestApi;
  let workshop: Workshop;
  beforeAll(async () => {
    api = await startApi();
    workshop = await openWorkshop(api, nswag.available ? nswag.folder : '');
  });
  afterAll(async () => {
    await workshop?.remove();
    await api?.close();
  });

  test('that NSwag generates creates, lists, cancels and learns of errors', async (ctx) => {
    if (reason !== null) return ctx.skip(reason);
    const tools = join(workshop.folder, 'node_modules/nswag/bin/binaries/Net100');
    const project = join(workshop.folder, 'nswag');
    const dotnet = (...args: string[]) => output('dotnet', args, project);
    await dotnet(
      join(tools, 'dotnet-nswag.dll'),
      ...['openapi2csclient', `/input:${workshop.document}`, '/output:Client.cs'],
      ...['/namespace:Waybill', '/classname:WaybillClient'],
      ...['/generateOptionalParameters:true', '/generateNullableReferenceTypes:true'],
      '/generateOptionalPropertiesAsNullable:true',
    );
    await dotnet('build', '--nologo', '-v', 'q', '-o', 'out', `-p:NSwagFolder=${tools}`);
    const patterns = join(workshop.folder, 'patterns.json');
    await writeFile(patterns, JSON.stringify(patternsIn(workshop.content)));
    const { key } = await api.createKey(['transfers:write', 'flows:write', 'webhooks:write']);
    expectFlows(await dotnet('out/Waybill.dll', api.url, key, patterns));
  });
});
