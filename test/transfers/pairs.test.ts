import { createHash, randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  ENDPOINT_KINDS,
  ENDPOINT_NAMES,
  type EndpointName,
  type TestEndpoint,
  uriOf,
  whyNotAll,
} from '../support/file-servers/endpoints.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { longUnless } from '../support/run/long.ts';
import { flowsOf } from '../support/service/flows.ts';
import {
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../support/service/installation.ts';
import { type RunningRoles, startRoles } from '../support/service/roles.ts';
import { storyOf, untilCleanedUp } from '../support/service/transfers.ts';

const KiB = 1 << 10;
const MiB = 1 << 20;
/** All adapters but FTPS move chunks of 8 MiB, FTPS of 4 MiB. */
const CHUNK = 8 * MiB;
const filesOf = (sizes: number[]) =>
  sizes.map((size) => ({ name: `${size} bytes`, content: randomBytes(size) }));
const SMALL = filesOf([0, 1, 10 * KiB]);
const LARGE = filesOf([CHUNK, CHUNK + 1]);
const NAMES = [
  'two words.txt',
  ' spaces around ',
  '.hidden',
  '-rf',
  'x'.repeat(200),
  'Übergröße 文件 🚚.csv',
  'cafe\u0301.txt',
  '100%.txt',
  '100%25.txt',
  'a#b?c.txt',
  'a+b c&d=e;f.txt',
  `'quoted' "twice" $(x) *.txt`,
];
const PAIRS = ENDPOINT_NAMES.flatMap((from) => ENDPOINT_NAMES.map((to) => ({ from, to })));
/** The next kind: with it, each kind is the source once, and once the destination. */
const after = (from: EndpointName) =>
  ENDPOINT_NAMES[(ENDPOINT_NAMES.indexOf(from) + 1) % ENDPOINT_NAMES.length] as EndpointName;

/**
 * Defines a test of two endpoints. Skips it, with the reason in its name, if the server of one
 * cannot run.
 */
function testBetween(
  from: EndpointName,
  to: EndpointName,
  name: string,
  run: () => Promise<void>,
  options: { tags?: string[] } = {},
): void {
  const reason = whyNotAll([from, to]);
  const title = reason ? `${name} (skipped: ${reason})` : name;
  test.skipIf(reason)(title, { timeout: 90_000, ...options }, run);
}

describeWithPostgres('files between every two protocols', () => {
  let installation: TestInstallation;
  let roles: RunningRoles;
  const endpoints = new Map<EndpointName, TestEndpoint>();
  const stamps = new Map<string, string>();
  /** Transfers by their source and destination URI. */
  const transfers = new Map<string, string>();

  const endpointOf = (name: EndpointName) => endpoints.get(name) as TestEndpoint;
  const folderOf = (from: EndpointName) => `from ${from}`;

  beforeAll(async () => {
    const available = ENDPOINT_NAMES.filter((name) => !whyNotAll([name]));
    installation = await openTestInstallation();
    await Promise.all(
      available.map(async (name) => endpoints.set(name, await ENDPOINT_KINDS[name].start())),
    );
    roles = await startRoles(installation, ['projector', 'mover', 'monitor']);
    for (const [name, { request }] of endpoints)
      await configureEndpoint(installation, { ...request, name });
    const sources = [
      ...SMALL,
      ...LARGE,
      ...NAMES.map((name) => ({ name: `names/${name}`, content: Buffer.from(name) })),
    ];
    for (const [name, endpoint] of endpoints) {
      for (const source of sources) {
        await endpoint.put(`source/${source.name}`, source.content);
        stamps.set(`${name}/${source.name}`, await endpoint.stamp(`source/${source.name}`));
      }
    }
    // All start at once; each test then waits for its own.
    for (const { from, to } of PAIRS.filter((pair) => !whyNotAll([pair.from, pair.to]))) {
      for (const { name } of SMALL)
        await begin(uriOf(from, `source/${name}`), uriOf(to, `${folderOf(from)}/${name}`));
    }
    for (const name of available) {
      for (const file of NAMES)
        await begin(uriOf(name, `source/names/${file}`), uriOf(name, 'names/'));
    }
  });

  afterAll(async () => {
    await roles?.stop();
    await Promise.all([
      installation?.close(),
      ...[...endpoints.values()].map((endpoint) => endpoint.stop()),
    ]);
  });

  async function begin(source: string, destination: string): Promise<void> {
    transfers.set(`${source} ${destination}`, await submit(installation, source, destination));
  }

  async function ended(source: string, destination: string) {
    const id = transfers.get(`${source} ${destination}`) as string;
    const done = await untilStatus(installation, id, ['completed', 'failed'], 80);
    expect(done, `${source} to ${destination}`).toMatchObject({ status: 'completed' });
    expect(await storyOf(installation, id)).toEqual([
      'created',
      'queued: admitted',
      'in_progress',
      'completed',
    ]);
    return done;
  }

  async function contentOf(endpoint: EndpointName, name: string): Promise<Buffer> {
    const content = await endpointOf(endpoint).read(name);
    if (!content) throw new Error(`${uriOf(endpoint, name)} is not there`);
    return buffer(content);
  }

  async function expectArrived(
    from: EndpointName,
    to: EndpointName,
    folder: string,
    files: typeof SMALL,
  ): Promise<void> {
    for (const { name, content } of files) {
      const target = `${folder}/${name}`;
      expect(await ended(uriOf(from, `source/${name}`), uriOf(to, target))).toMatchObject({
        checksum_sha256: createHash('sha256').update(content).digest('hex'),
        verification: {
          size: true,
          source_unchanged: true,
          destination_checksum:
            ENDPOINT_KINDS[to].compares[content.length > CHUNK ? 'parts' : 'whole'],
          read_back: false,
          atomic_replace: true,
        },
        facts: {
          size_bytes: content.length,
          transferred_bytes: content.length,
          error: null,
          retry_count: 0,
        },
      });
      expect((await contentOf(to, target)).equals(content), target).toBe(true);
      expect(
        (await contentOf(from, `source/${name}`)).equals(content),
        `the source of ${target}`,
      ).toBe(true);
      expect(await endpointOf(from).stamp(`source/${name}`)).toBe(stamps.get(`${from}/${name}`));
    }
    await untilCleanedUp(installation);
    const names = await endpointOf(to).names(folder);
    expect(names.sort()).toEqual(files.map(({ name }) => `${folder}/${name}`).sort());
  }

  for (const { from, to } of PAIRS) {
    testBetween(from, to, `${from} to ${to}`, () => expectArrived(from, to, folderOf(from), SMALL));
    testBetween(
      from,
      to,
      `${from} to ${to}, a chunk and more`,
      async () => {
        const folder = `large ${folderOf(from)}`;
        for (const { name } of LARGE)
          await begin(uriOf(from, `source/${name}`), uriOf(to, `${folder}/${name}`));
        await expectArrived(from, to, folder, LARGE);
      },
      longUnless(to === after(from)),
    );
  }

  for (const endpoint of ENDPOINT_NAMES) {
    testBetween(
      endpoint,
      endpoint,
      `names stay what they are, from and to ${endpoint}`,
      async () => {
        for (const name of NAMES) {
          const done = await ended(
            uriOf(endpoint, `source/names/${name}`),
            uriOf(endpoint, 'names/'),
          );
          expect(done.facts).toMatchObject({ file_name: name });
          expect(String(await contentOf(endpoint, `names/${name}`))).toBe(name);
        }
        await untilCleanedUp(installation);
        expect((await endpointOf(endpoint).names('names')).sort()).toEqual(
          NAMES.map((name) => `names/${name}`).sort(),
        );
      },
    );
  }

  for (const from of ENDPOINT_NAMES) {
    const to = after(from);
    const takesEach = async () => {
      const flows = flowsOf({ installation });
      const put = (name: string, text: string) => endpointOf(from).put(name, Buffer.from(text));
      await put('flow/two words.csv', 'first');
      await put('flow/below/ü%.csv', 'below');
      await put('flow/left-out.tmp', 'left out');
      const id = await flows.create(`flow of ${from}`, {
        source: { uri: uriOf(from, 'flow/'), pattern: '*.csv', recursive: true },
        destination_uri: uriOf(to, `flow of ${from}/`),
      });
      const all = { status: 'completed', counts: { files: 2, completed: 2 } };
      expect(await flows.run(id)).toMatchObject(all);
      expect(await flows.run(id)).toMatchObject({ status: 'empty' });
      // Another size, because some servers tell times in whole seconds.
      await put('flow/two words.csv', 'the second version');
      expect(await flows.run(id)).toMatchObject({ counts: { files: 1, completed: 1 } });
      expect(await flows.run(id)).toMatchObject({ status: 'empty' });
      const arrived = (name: string) => contentOf(to, `flow of ${from}/${name}`).then(String);
      expect(await arrived('two words.csv')).toBe('the second version');
      expect(await arrived('below/ü%.csv')).toBe('below');
    };
    testBetween(
      from,
      to,
      `a flow from ${from} to ${to} takes each version once`,
      takesEach,
      longUnless(from === 's3-ceph'),
    );
  }
});
