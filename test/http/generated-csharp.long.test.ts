import { readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
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
const reason = nswag.available ? (whyNo('dotnet') ?? whyNo('jq')) : nswag.reason;
const GUIDE = resolve(import.meta.dirname, '../../docs/clients.md');

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
    const generate = (document: string, namespace: string) =>
      dotnet(
        join(tools, 'dotnet-nswag.dll'),
        ...['openapi2csclient', `/input:${document}`, `/output:${namespace}.cs`],
        ...[`/namespace:${namespace}`, '/classname:WaybillClient'],
        ...['/generateOptionalParameters:true', '/generateNullableReferenceTypes:true'],
        '/generateOptionalPropertiesAsNullable:true',
      );
    await generate(workshop.document, 'Waybill');
    const [, filter = ''] = /^jq '([^']+)'/m.exec(await readFile(GUIDE, 'utf8')) ?? [];
    const inherited = join(workshop.folder, 'inherited.json');
    await writeFile(inherited, await output('jq', [filter, workshop.document], project));
    await generate(inherited, 'Inherited');
    await dotnet('build', '--nologo', '-v', 'q', '-o', 'out', `-p:NSwagFolder=${tools}`);
    const patterns = join(workshop.folder, 'patterns.json');
    await writeFile(patterns, JSON.stringify(patternsIn(workshop.content)));
    const { key } = await api.createKey([
      ...(['transfers:write', 'flows:write', 'webhooks:write'] as const),
      'observe',
    ]);
    const printed = await dotnet('out/Waybill.dll', api.url, key, patterns);
    const { endpoints, ...flows } = JSON.parse(printed);
    expectFlows(JSON.stringify(flows));
    expect(endpoints).toEqual(['archive']);
  });
});
