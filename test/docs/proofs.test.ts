import { execFile } from 'node:child_process';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { statementText } from '../../src/domain/proof/key-statement.ts';
import { signNote } from '../../src/domain/proof/note.ts';
import type { Receipt } from '../../src/domain/proof/receipt.ts';
import { runRetention } from '../../src/processes/retention/run-retention.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { whyNo } from '../support/programs/why-no.ts';
import { LONG, longUnless } from '../support/run/long.ts';
import { CLI_TIMEOUT_MS, createCli } from '../support/service/cli.ts';
import { CAUSE } from '../support/service/installation.ts';

const run = promisify(execFile);
const GUIDE = join(import.meta.dirname, '..', '..', 'docs', 'auditors.md');

const CHANGES: [string, (receipt: Receipt) => unknown][] = [
  ['a changed file name', (receipt) => edit(receipt, (leaf) => leaf.replace('report', 'rapport'))],
  ['a changed actor', (receipt) => edit(receipt, (leaf) => leaf.replace('key:', 'cli:'))],
  ['a missing event', (receipt) => ({ ...receipt, events: receipt.events.slice(1) })],
  ['a missing end', (receipt) => ({ ...receipt, events: receipt.events.slice(0, -1) })],
  [
    'another path',
    (receipt) => ({
      ...receipt,
      events: receipt.events.map((event) => ({ ...event, proof: event.proof.toReversed() })),
    }),
  ],
  ['another transfer', (receipt) => ({ ...receipt, transfer_id: 'txr_other' })],
  [
    'a changed checkpoint',
    (receipt) => ({
      ...receipt,
      checkpoint: receipt.checkpoint.replace(/\n(\d+)\n/, (_, size) => `\n${Number(size) + 1}\n`),
    }),
  ],
];

type KeyPair = Record<'publicKey' | 'privateKey', KeyObject>;

function edit(receipt: Receipt, change: (leaf: string) => string): Receipt {
  const [first, ...rest] = receipt.events;
  if (first === undefined) throw new Error('no events');
  const leaf = change(first.leaf);
  expect(leaf).not.toBe(first.leaf);
  return { ...receipt, events: [{ ...first, leaf }, ...rest] };
}

/** Describes tests that run these programs. Without one of them, they are skipped by name. */
function describeWithPrograms(name: string, programs: string[], tests: () => void): void {
  const reason = programs
    .map((program) => whyNo(program, program === 'openssl' ? 'version' : '--version'))
    .find((why) => why !== null);
  if (reason) describe.skip(`${name} (skipped: ${reason})`, tests);
  else describe(name, tests);
}

/** Returns the code under `Verify without Waybill` in the auditors' guide, in its order. */
async function codeOfGuide(language: string): Promise<string[]> {
  const text = await readFile(GUIDE, 'utf8');
  const chapter = text.slice(text.indexOf('\n## Verify without Waybill'));
  const blocks = chapter.matchAll(new RegExp(`\`\`\`${language}\\n(.*?)\n\`\`\``, 'gs'));
  return Array.from(blocks, ([, code]) => code as string);
}

describeWithPostgres('proofs without trust', () => {
  let api: TestApi;
  let folder: string;
  let receipt: Receipt;
  const inFolder = (name: string) => join(folder, name);
  const file = async (name: string, content: unknown) => {
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    await writeFile(inFolder(name), text);
    return name;
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'waybill-proofs-'));
    api = await startApi();
    const auditor = (await api.createKey(['audit:all'])).key;
    const cancelOne = async () => {
      // Python sorts these keys by code point, RFC 8785 by UTF-16 unit.
      const metadata = { '\uffff': 'last', '🎉': 'before it' };
      const files = { source_uri: 'sftp://files/report.csv', destination_uri: 's3://archive/in/' };
      const json = { ...files, metadata };
      const { body } = await api.ask('POST', '/v1/transfers', { json });
      await api.ask('DELETE', `/v1/transfers/${body.id}`);
      return body.id as string;
    };
    const sign = async () =>
      (await api.ask('POST', '/v1/checkpoints', { key: auditor })).body as {
        size: number;
        note: string;
      };
    for (let i = 0; i < 5; i += 1) await cancelOne();
    const id = await cancelOne();
    const older = await sign();
    await cancelOne();
    const newer = await sign();
    receipt = (await api.ask('GET', `/v1/transfers/${id}/receipt`)).body;
    const path = `/v1/checkpoints/${newer.size}/consistency?from=${older.size}`;
    const consistency = (await api.ask('GET', path, { key: auditor })).body;
    await file('key.pem', receipt.public_key);
    const other = generateKeyPairSync('ed25519').publicKey.export({ format: 'pem', type: 'spki' });
    await file('other.pem', other as string);
    await file('older.txt', older.note);
    await file('newer.txt', newer.note);
    await file('consistency.json', consistency);
    const [script] = await codeOfGuide('python');
    expect(script?.split('\n').length).toBeLessThanOrEqual(80);
    await file('prove.py', script as string);
  });
  afterAll(async () => {
    await api?.close();
    if (folder) await rm(folder, { recursive: true, force: true });
  });

  /** Runs `prove.py` and returns its exit code and what it says. */
  async function python(key: string, ...files: string[]): Promise<[number, string]> {
    return run('python3', ['prove.py', key, ...files], { cwd: folder }).then(
      ({ stdout }) => [0, stdout],
      (error: { code: number; stderr: string }) => [error.code, error.stderr],
    );
  }

  describeWithPrograms('with the Python script of the guide', ['python3', 'openssl'], () => {
    it('hold for a receipt', async () => {
      await file('receipt.json', receipt);
      expect(await python('key.pem', 'receipt.json')).toEqual([
        0,
        expect.stringMatching(/^TRUE: transfer\.cancelled at \S+Z\n$/),
      ]);
      expect((await python('other.pem', 'receipt.json'))[1]).toContain('the key did not sign');
    });

    for (const [index, [what, change]] of CHANGES.entries())
      it(`do not hold for a receipt with ${what}`, longUnless(index < 3), async () => {
        const [code, said] = await python('key.pem', await file('changed.json', change(receipt)));
        expect([code, said]).toEqual([1, expect.stringMatching(/^FALSE: /)]);
      });

    it('hold for two checkpoints, in their order only', LONG, async () => {
      const [code, said] = await python('key.pem', 'older.txt', 'newer.txt', 'consistency.json');
      expect([code, said]).toEqual([0, expect.stringMatching(/^TRUE: \d+ events begin/)]);
      const turned = await python('key.pem', 'newer.txt', 'older.txt', 'consistency.json');
      expect(turned).toEqual([1, 'FALSE: it extends another log\n']);
      const proof = JSON.parse(await readFile(inFolder('consistency.json'), 'utf8')).proof;
      for (const [what, other] of Object.entries({
        reversed: proof.toReversed(),
        longer: [proof[0], ...proof],
        'longer at its end': [...proof, proof[0]],
        shorter: proof.slice(1),
        empty: [],
      })) {
        await file('other.json', { proof: other });
        const forged = await python('key.pem', 'older.txt', 'newer.txt', 'other.json');
        expect([what, ...forged]).toEqual([what, 1, 'FALSE: it extends another log\n']);
      }
      await file('one.json', { proof: [proof[0]] });
      const same = await python('key.pem', 'newer.txt', 'newer.txt', 'one.json');
      expect(same).toEqual([1, 'FALSE: it extends another log\n']);
    });

    it('hold for the whole log, unless an event of it was changed, moved or removed', async () => {
      const log = (await createCli(api.installation.environment).run(['audit', 'export'])).stdout;
      const [changed, moved, cut] = [
        log.replace('report.csv', 'rapport.csv'),
        log.replace(/^(.*\n)(.*\n)/, '$2$1'),
        log.replace(/(.*\n){8}$/, ''),
      ];
      const proven = async (text: string) => {
        const name = await file('log.ndjson', text);
        return (await python('key.pem', 'newer.txt', name))[1];
      };
      expect(await proven(log)).toMatch(/^TRUE: the log begins with the \d+ events that were sig/);
      expect(await proven(changed)).toMatch(/^FALSE: the first events of the log are not those/);
      expect(await proven(moved)).toMatch(/^FALSE: the first events of the log are not those/);
      expect(await proven(cut)).toMatch(/^FALSE: the log ends after \d+ of \d+ events/);
    });

    it(
      'hold for a log that transfers have left, unless their record was changed',
      LONG,
      async () => {
        const { installation } = api;
        const { key } = await api.createKey(['transfers:write'], { account: 'acc_other' });
        const json = { source_uri: 'sftp://files/old.csv', destination_uri: 's3://archive/in/' };
        const { body } = await api.ask('POST', '/v1/transfers', { json, key });
        expect((await api.ask('DELETE', `/v1/transfers/${body.id}`, { key })).status).toBe(200);
        const choice = { endedBefore: new Date(Date.now() + 60_000), accountId: 'acc_other' };
        const run = { ...choice, folder, onExport: async () => undefined };
        const { checkpoint } = await runRetention(installation, run, CAUSE);
        await file('before.txt', checkpoint?.note);
        const cli = createCli(installation.environment);
        await file('after.txt', (await cli.run(['log', 'checkpoint'])).stdout);
        const log = (await cli.run(['audit', 'export'])).stdout;
        expect(log).not.toContain('old.csv');
        const recorded = /"hash":"([0-9a-f]{64})"/.exec(log)?.[1] as string;
        await file('left.ndjson', log);
        await file('forged.ndjson', log.replace(recorded, '0'.repeat(64)));
        for (const note of ['before.txt', 'after.txt']) {
          expect(await python('key.pem', note, 'left.ndjson')).toEqual([
            0,
            expect.stringMatching(/^TRUE/),
          ]);
          expect(await python('key.pem', note, 'forged.ndjson')).toEqual([
            1,
            expect.stringMatching(/^FALSE/),
          ]);
        }
      },
    );
  });

  describeWithPrograms('with the shell commands of the guide', ['openssl', 'jq', 'xxd'], () => {
    async function shell(): Promise<{ code: number; stdout: string }> {
      const [signature, path] = await codeOfGuide('sh');
      return run('sh', ['-c', `set -e\n${signature}\n${path}`], { cwd: folder }).then(
        ({ stdout }) => ({ code: 0, stdout }),
        (error: { code: number; stdout: string }) => error,
      );
    }

    it('hold for a receipt', async () => {
      await file('receipt.json', receipt);
      // As after rotations: neither the first nor the last key has signed this receipt.
      const { data } = (await api.ask('GET', '/v1/log/keys')).body;
      const other = {
        key_id: '00000000',
        public_key: await readFile(inFolder('other.pem'), 'utf8'),
      };
      await file('keys.json', { data: [other, ...data, { ...other, key_id: 'ffffffff' }] });
      const { code, stdout } = await shell();
      expect([code, stdout]).toEqual([
        0,
        'Signature Verified Successfully\nThe last event is in the log\n',
      ]);
    });

    it('do not hold for a changed one', async () => {
      const last = receipt.events.at(-1) as Receipt['events'][0];
      const forged = { ...last, leaf: last.leaf.replace('cancelled', 'completed') };
      await file('receipt.json', { ...receipt, events: [...receipt.events.slice(0, -1), forged] });
      expect(await shell()).toMatchObject({
        code: 1,
        stdout: 'Signature Verified Successfully\n',
      });
      const checkpoint = receipt.checkpoint.replace('waybill/', 'waybull/');
      await file('receipt.json', { ...receipt, checkpoint });
      expect((await shell()).stdout).not.toContain('Successfully');
    });

    it('hold for new keys, if the key before each of them signed it', LONG, async () => {
      const [first, old, newest, stranger, later] = Array.from({ length: 5 }, () =>
        generateKeyPairSync('ed25519'),
      ) as [KeyPair, KeyPair, KeyPair, KeyPair, KeyPair];
      const pem = ({ publicKey }: KeyPair) => publicKey.export({ format: 'pem', type: 'spki' });
      const statement = ({ publicKey }: KeyPair, signers: KeyPair[]) =>
        signNote(
          statementText('waybill/log', publicKey, '2026-01-01T00:00:00.000Z'),
          'waybill/log',
          signers.map(({ privateKey }) => privateKey),
        );
      const genuine = statement(newest, [newest, old]);
      const pasted = `${statement(stranger, [stranger])}${genuine.split('\n').at(-2)}\n`;
      const begun: [KeyPair, string][] = [
        [first, statement(first, [first])],
        [old, statement(old, [old, first])],
      ];
      const code = (await codeOfGuide('sh')).find((block) => block.includes('statement.txt'));
      const said = async (mine: KeyPair, keys: [KeyPair, string][]) => {
        await file('mine.pem', pem(mine));
        const data = keys.map(([key, text]) => ({ public_key: pem(key), statement: text }));
        await file('keys.json', { data });
        return (await run('sh', ['-c', `${code}`], { cwd: folder })).stdout;
      };
      const FOLLOW = 'All keys after yours follow from it\n';
      const unsigned = (nr: number) => `FALSE: the key before it did not sign key ${nr}\n`;
      const all: [KeyPair, string][] = [...begun, [newest, genuine]];
      for (const mine of [first, old, newest]) expect(await said(mine, all)).toBe(FOLLOW);
      expect(await said(stranger, all)).toBe('FALSE: these keys lack yours\n');
      for (const [key, text] of [
        [newest, statement(newest, [newest])],
        [stranger, pasted],
        [stranger, genuine],
      ] as const)
        expect(await said(old, [...begun, [key, text]])).toBe(unsigned(3));
      // A lost key that was forged, and a rotation after it that its key signs.
      const forged: [KeyPair, string][] = [
        [stranger, statement(stranger, [stranger])],
        [later, statement(later, [later, stranger])],
      ];
      expect(await said(first, [...all, ...forged])).toBe(unsigned(4));
      expect(await said(stranger, [...all, ...forged])).toBe(FOLLOW);
      await file('key.pem', receipt.public_key);
    });
  });

  it('replace an older file only as a whole', async () => {
    const cli = createCli(api.installation.environment);
    const out = inFolder('older.json');
    await writeFile(out, 'older');
    const older = await stat(out);
    expect((await cli.run(['receipt', receipt.transfer_id, '--out', out])).code).toBe(0);
    expect(JSON.parse(await readFile(out, 'utf8'))).toMatchObject({
      transfer_id: receipt.transfer_id,
    });
    expect((await stat(out)).ino).not.toBe(older.ino);
  });

  describe('with waybill receipt verify', { timeout: CLI_TIMEOUT_MS }, () => {
    // No settings: it needs no database.
    const cli = createCli({});
    const verify = (name: string, key = 'key.pem') =>
      cli.run(['receipt', 'verify', inFolder(name), '--key', inFolder(key), '--json']);

    it('hold for a receipt', async () => {
      await file('receipt.json', receipt);
      const [result] = (await verify('receipt.json')).json();
      expect(result).toMatchObject({
        verified: true,
        transfer_id: receipt.transfer_id,
        source: 'sftp://files/report.csv',
        checkpoint: { size: expect.any(Number) },
      });
      const other = await verify('receipt.json', 'other.pem');
      const problems = [
        expect.stringMatching(/names the key [0-9a-f]{8}, and you gave [0-9a-f]{8}$/),
      ];
      expect([other.code, other.json()]).toEqual([1, [{ verified: false, problems }]]);
      const named = ['receipt', 'verify', inFolder('receipt.json'), '--key', inFolder('other.pem')];
      const { stdout } = await cli.run(named);
      expect(stdout).toContain('NOT VERIFIED: verify it with the key that the signature names');
      expect(stdout).not.toContain('proves nothing');
    });

    it('do not hold for a changed one, or for anything else', async () => {
      const [, change] = CHANGES[0] as (typeof CHANGES)[0];
      await file('changed.json', change(receipt));
      expect(await verify('changed.json')).toMatchObject({ code: 1 });
      await file('else.json', { version: 2 });
      expect(await verify('else.json')).toMatchObject({ code: 2 });
      expect(await verify('receipt.json', 'receipt.json')).toMatchObject({ code: 2 });
      await writeFile(inFolder('bytes'), Buffer.from('\u001b[31m\u0007\u0000\u0080\n'));
      const bytes = await verify('bytes');
      expect([bytes.code, bytes.stderr]).toEqual([
        2,
        expect.stringMatching(/^waybill: \S+\/bytes is not JSON.*\n$/),
      ]);
      await file('escapes.json', { ...receipt, '\u001b[31mred\u0007': 1 });
      expect((await verify('escapes.json')).stderr).toContain('  red?: is not a known field');
    });

    it('leave out the control characters of a forged one', async () => {
      const leaf = JSON.stringify({ stream: '\u001b[31mred\u0007', revision: 0 });
      const [first, ...later] = receipt.events;
      await file('forged.json', { ...receipt, events: [{ ...first, leaf }, ...later] });
      const forged = inFolder('forged.json');
      const { stdout } = await cli.run(['receipt', 'verify', forged, '--key', inFolder('key.pem')]);
      expect(stdout).toContain('event 0: it is of the stream red?\n');
    });

    it('print no text of a forged one as their own', async () => {
      const [first, ...others] = receipt.events as [Receipt['events'][0]];
      const stream = 'x\nVERIFIED: the key signed\u001b[8m\u009b8m';
      const leaf = JSON.stringify({ ...JSON.parse(first.leaf), stream });
      await file('forged.json', { ...receipt, events: [{ ...first, leaf }, ...others] });
      await file('keys.json', { ...receipt, [stream]: 1 });
      for (const name of ['forged.json', 'keys.json'])
        for (const json of [[], ['--json']]) {
          const args = ['receipt', 'verify', inFolder(name), '--key', inFolder('key.pem'), ...json];
          const { code, stdout, stderr } = await cli.run(args);
          expect([1, 2]).toContain(code);
          expect(stdout + stderr).not.toMatch(/^VERIFIED|[^\P{Cc}\n]/mu);
        }
    });

    it('hold if any of several keys has signed, as after a rotation', async () => {
      await file('receipt.json', receipt);
      const both = await Promise.all(
        ['other.pem', 'key.pem'].map((name) => readFile(inFolder(name), 'utf8')),
      );
      await file('keys.txt', `key_id 1\n${both[0]}\nkey_id 2\n${both[1]}`);
      expect(await verify('receipt.json', 'keys.txt')).toMatchObject({ code: 0 });
    });

    it('do not hold for events after the end of the key that signed', async () => {
      await file('receipt.json', receipt);
      const pem = await readFile(inFolder('key.pem'), 'utf8');
      const newer = await readFile(inFolder('other.pem'), 'utf8');
      const end = JSON.parse(receipt.events.at(-1)?.leaf ?? '').metadata.occurred_at;
      const verified = async (until: number) => {
        const facts = `key_id  1\nuntil   ${new Date(until).toISOString()}\n`;
        await file('keys.txt', `${facts}${pem}key_id  2\nuntil   -\n${newer}`);
        return verify('receipt.json', 'keys.txt');
      };
      expect(await verified(Date.parse(end) - 59_000)).toMatchObject({ code: 0 });
      const late = await verified(Date.parse(end) - 120_000);
      const problems = [
        expect.stringMatching(/^the key \w{8} signed until .*Z, and the receipt has /),
      ];
      expect([late.code, late.json()]).toEqual([1, [{ verified: false, problems }]]);
    });

    it('say which file cannot be read', async () => {
      await file('receipt.json', receipt);
      const beside = await verify('receipt.json/none');
      const said = /^waybill: \S+ does not exist: a part of its path is not a folder$/m;
      expect([beside.code, beside.stderr]).toEqual([2, expect.stringMatching(said)]);
    });

    it('are printed by waybill receipt, and by waybill log', async () => {
      const own = createCli(api.installation.environment);
      const note = await own.run(['log', 'checkpoint']);
      // A newer one than that of the API: the access to the receipt is in the log now.
      expect(note.stdout.split('\n')[0]).toBe(receipt.checkpoint.split('\n')[0]);
      expect(note.stdout).toMatch(/^\u2014 \S+ \S+$/m);
      const printed = await own.run(['receipt', receipt.transfer_id]);
      expect([printed.code, JSON.parse(printed.stdout)]).toEqual([0, receipt]);
      const reads = ['audit', 'list', '--type', 'access.receipt_read', '--json'];
      const [accesses] = (await own.run(reads)).json<{ data: unknown[] }>();
      expect(accesses?.data[0]).toMatchObject({
        actor: expect.stringMatching(/^cli:/),
        subject: { id: receipt.transfer_id },
        account: 'acc_default',
      });
      const [keys] = (await own.run(['log', 'keys', '--json'])).json<{ data: unknown[] }>();
      expect(keys?.data).toMatchObject([{ public_key: receipt.public_key }]);
      expect(await own.run(['log', 'rotate-key'])).toMatchObject({ code: 0 });
      const signed = (await own.run(['log', 'checkpoint'])).stdout;
      expect(signed).not.toBe(note.stdout);
    });
  });
});
