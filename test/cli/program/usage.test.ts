import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { EXIT } from '../../../src/cli/program/exit-codes.ts';
import { CLI_TIMEOUT_MS, createCli, createSpawnedCli } from '../../support/service/cli.ts';

vi.setConfig({ testTimeout: CLI_TIMEOUT_MS });

describe('waybill', () => {
  const cli = createCli({});

  it('explains itself, including the exit codes', async () => {
    const { code, stdout } = await cli.run(['--help']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/transfers/);
    expect(stdout).toMatch(/Exit codes:\n {2}0 {2}done\n/);
  });

  it('gives its results and its exit code to the shell', async () => {
    const program = createSpawnedCli({});
    const helped = await program.run(['keys', '--help']);
    expect(helped).toMatchObject({ code: 0, stderr: '' });
    expect(helped.stdout).toMatch(/^Usage: waybill keys /);
    const body = ['webhooks', 'verify', '--secret', 'correct-horse-battery', '--body-file', '-'];
    const verified = await program.run([...body, '--signature', 'ab'.repeat(32)], 'the body');
    expect(verified).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^--secret is visible in the list of processes: /),
    });
    expect(verified.stdout).toMatch(/^X-Service-Signature: NOT verified: /);
    expect(await program.run(['keys', '--bogus'])).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(/--help/),
    });
  });

  it('documents every exit code', async () => {
    const text = await readFile(
      join(import.meta.dirname, '..', '..', '..', 'docs', 'cli.md'),
      'utf8',
    );
    const documented = [...text.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code));
    expect(documented).toEqual(Object.values(EXIT));
  });

  it('has --json on every command but those that run on, and the export, which is JSON', async () => {
    const without: string[] = [];
    async function look(command: string[]): Promise<void> {
      const { stdout } = await cli.run([...command, '--help']);
      const [, listed = ''] = stdout.split(/\nCommands:\n/);
      const names = [...listed.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name]) => name as string);
      for (const name of names.filter((each) => each !== 'help')) await look([...command, name]);
      if (names.length === 0 && !stdout.includes('--json')) without.push(command.join(' '));
    }
    await look([]);
    expect(without).toEqual(['dev', 'serve', 'audit export']);
  });

  it('shows defaults as people write them', async () => {
    const { stdout } = await cli.run(['serve', '--help']);
    expect(stdout).toContain('(default: all of them)');
    expect((await cli.run(['audit', 'verify', '--help'])).stdout).not.toContain('default:');
  });

  it.each([
    [['bogus']],
    [['keys', 'list', '--bogus']],
    [['keys', 'create', '--name', 'x']],
    [['serve', '--roles', 'api,cook']],
    [['keys']],
    [['transfers', 'list', '--account', 'A B']],
    [['webhooks', 'list', '--account', '']],
    [['transfers', 'create', 'sftp://a/x', 'sftp://b/', '--metadata', 'a=1', '--metadata', 'a=2']],
  ])('rejects the usage %j', async (args) => {
    const { code, stdout, stderr } = await cli.run(args);
    expect(code).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).toMatch(/--help|Usage:/);
  });

  it.each([
    [['serve', '--roles', ''], /It must name at least one of api, /],
    [['serve', '--roles', 'api,'], /There is no role '': it must be one of api, /],
    [
      ['keys', 'create', '--name', 'x', '--scopes', 'admin', '--role', 'admin'],
      /'--role <role>' cannot be used with option '--scopes <a,b>'/,
    ],
    [
      ['transfers', 'list', '--retried', '--no-retried'],
      /'--retried' cannot be used with option '--no-retried'/,
    ],
    [
      ['transfers', 'bulk', 'retry', '--no-retried', '--retried'],
      /'--retried' cannot be used with option '--no-retried'/,
    ],
    [
      ['transfers', 'list', '--csv', '--limit', '25'],
      /'--csv' cannot be used with option '--limit <number>'/,
    ],
    [
      ['audit', 'list', '--csv', '--offset', '1'],
      /'--csv' cannot be used with option '--offset <number>'/,
    ],
    [['transfers', 'bulk', 'retry'], /choose the transfers by '--ids', or by filters such as/],
    [
      ['transfers', 'bulk', 'retry', '--ids', 'txr_1', '--status', 'failed'],
      /choose the transfers by '--ids', or by filters such as/,
    ],
  ])('says what is wrong with %j', async (args, message) => {
    const { code, stdout, stderr } = await cli.run(args);
    expect(code).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).toMatch(message);
  });

  it.each([[['migrate']], [['serve']], [['dev']]])(
    'names a data folder that the system cannot create, to %j',
    async (args) => {
      const program = createSpawnedCli({ WAYBILL_DATA_DIR: '/proc/x', WAYBILL_PORT: '0' });
      const { code, stderr } = await program.run(args);
      expect(code).not.toBe(0);
      expect(stderr).toMatch(/The data folder \/proc\/x can't be used \(ENOENT\)/);
    },
  );

  it('names all wrong settings', async () => {
    const { code, stderr } = await createCli({ WAYBILL_PORT: 'http', WAYBILL_DATADIR: '/tmp' }).run(
      ['keys', 'list'],
    );
    expect(code).toBe(2);
    expect(stderr).toMatch(/WAYBILL_DATADIR is not a setting: did you mean WAYBILL_DATA_DIR\?/);
    expect(stderr).toMatch(/WAYBILL_PORT is "http", but must be a whole number/);
  });

  it('says what to check when Postgres is down', async () => {
    const settings = {
      DATABASE_URL: 'postgres://u:canary@127.0.0.1:1/d',
      WAYBILL_MASTER_KEY: Buffer.alloc(32).toString('base64'),
    };
    const { code, stdout, stderr } = await createCli(settings).run(['keys', 'list']);
    expect(code).toBe(5);
    expect(stdout).toBe('');
    expect(stderr).toMatch(/^waybill: Postgres is unavailable: .*ECONNREFUSED.*DATABASE_URL\.\n$/);
    expect(stderr).not.toContain('canary');
  });
});
