import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError, parseConfig, SETTING_NAMES } from '../src/config.ts';

const OIDC = {
  WAYBILL_OIDC_ISSUER: 'https://login.example.com/realms/a',
  WAYBILL_OIDC_CLIENT_ID: 'waybill',
  WAYBILL_OIDC_CLIENT_SECRET: 'canary',
  WAYBILL_OIDC_ROLES: 'groups:ops=operator@acc_default, email:ann@example.com=admin@*',
};
const KEY = Buffer.alloc(32, 7).toString('base64');

function problemsOf(environment: Record<string, string>): string[] {
  try {
    parseConfig(environment);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

describe('parseConfig', () => {
  it('requires no setting', () => {
    expect(parseConfig({ PATH: '/bin', WAYBILL_HOST: '' })).toEqual({
      host: '127.0.0.1',
      port: 8080,
      tls: null,
      trustedProxies: [],
      publicUrl: null,
      oidc: null,
      dataDir: resolve('.waybill'),
      databaseUrl: null,
      eventStore: null,
      streamPrefix: 'waybill_',
      masterKey: null,
      rateLimit: 100,
      movers: 16,
      maxOpenTransfers: 100_000,
      transferRetryDelays: [10_000, 60_000, 300_000],
      webhookRetryDelays: [60_000, 300_000, 1_800_000],
      webhookAllowCidrs: [],
      checkpointSinks: [],
      allowUnlimitedKeys: false,
      logLevel: 'info',
    });
  });

  it('reads every setting', () => {
    const config = parseConfig({
      WAYBILL_HOST: '0.0.0.0',
      WAYBILL_PORT: '0',
      WAYBILL_TLS_CERT: 'cert.pem',
      WAYBILL_TLS_KEY: '/etc/key.pem',
      WAYBILL_TRUSTED_PROXIES: '10.0.0.1, fd00::/8',
      WAYBILL_PUBLIC_URL: 'https://waybill.example.com/',
      ...OIDC,
      WAYBILL_DATA_DIR: 'data',
      DATABASE_URL: 'postgresql://waybill:secret@db/waybill',
      EVENTSTORE_URL: 'esdb+discover://cluster:2113',
      WAYBILL_EVENTSTORE_USER: 'waybill',
      WAYBILL_EVENTSTORE_PASSWORD: 'p@ss',
      WAYBILL_EVENTSTORE_CA_FILE: 'ca.crt',
      WAYBILL_STREAM_PREFIX: 'mft_',
      WAYBILL_MASTER_KEY: `${KEY}, ${KEY}`,
      WAYBILL_RATE_LIMIT: '7',
      WAYBILL_MOVERS: '2',
      WAYBILL_MAX_OPEN_TRANSFERS: '5',
      WAYBILL_TRANSFER_RETRY_DELAYS: '250ms, 1s',
      WAYBILL_WEBHOOK_RETRY_DELAYS: '1m',
      WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8,::1/128',
      WAYBILL_CHECKPOINT_SINKS:
        'file:///mnt/audit, s3://archive/log/, https://witness.example.com/a',
      WAYBILL_ALLOW_UNLIMITED_KEYS: 'true',
      WAYBILL_LOG_LEVEL: 'debug',
    });
    expect(config).toEqual({
      host: '0.0.0.0',
      port: 0,
      tls: { certFile: resolve('cert.pem'), keyFile: '/etc/key.pem' },
      trustedProxies: ['10.0.0.1', 'fd00::/8'],
      publicUrl: 'https://waybill.example.com',
      oidc: {
        issuer: 'https://login.example.com/realms/a',
        clientId: 'waybill',
        clientSecret: 'canary',
        roles: [
          { claim: 'groups', value: 'ops', role: 'operator', account: 'acc_default' },
          { claim: 'email', value: 'ann@example.com', role: 'admin', account: '*' },
        ],
      },
      dataDir: resolve('data'),
      databaseUrl: 'postgresql://waybill:secret@db/waybill',
      eventStore: {
        url: 'esdb+discover://cluster:2113',
        user: 'waybill',
        password: 'p@ss',
        caFile: resolve('ca.crt'),
      },
      streamPrefix: 'mft_',
      masterKey: `${KEY},${KEY}`,
      rateLimit: 7,
      movers: 2,
      maxOpenTransfers: 5,
      transferRetryDelays: [250, 1_000],
      webhookRetryDelays: [60_000],
      webhookAllowCidrs: ['127.0.0.0/8', '::1/128'],
      checkpointSinks: ['file:///mnt/audit', 's3://archive/log/', 'https://witness.example.com/a'],
      allowUnlimitedKeys: true,
      logLevel: 'debug',
    });
  });

  it('returns a frozen object', () => {
    const config = parseConfig({}) as unknown as { port: number; transferRetryDelays: number[] };
    expect(() => (config.port = 1)).toThrow(TypeError);
    expect(() => config.transferRetryDelays.push(1)).toThrow(TypeError);
  });

  it.each([
    ['WAYBILL_DATABASE_URL', 'did you mean DATABASE_URL?'],
    ['WAYBILL_EVENTSTORE_URL', 'did you mean EVENTSTORE_URL?'],
    ['waybill_port', 'did you mean WAYBILL_PORT?'],
    ['WAYBILL_QUEUE', 'docs/settings.md lists them all'],
  ])('rejects the name %s', (name, hint) => {
    expect(problemsOf({ [name]: 'x' })).toEqual([`${name} is not a setting: ${hint}`]);
  });

  it('names every problem at once', () => {
    const problems = problemsOf({
      WAYBILL_PORT: '65536',
      WAYBILL_LOG_LEVEL: 'loud',
      WAYBILL_TLS_CERT: 'cert.pem',
      WAYBIL: 'x',
      WAYBILL_PROT: '1',
    });
    expect(problems).toEqual([
      'WAYBILL_PROT is not a setting: did you mean WAYBILL_PORT?',
      'WAYBILL_PORT is "65536", but must be a whole number from 0 to 65535',
      'WAYBILL_LOG_LEVEL is "loud", but must be one of trace, debug, info, warn, error, ' +
        'fatal, silent',
      'WAYBILL_TLS_KEY is missing: WAYBILL_TLS_CERT alone has no effect, set both or neither',
    ]);
  });

  it.each([
    ['WAYBILL_PORT', '80a'],
    ['WAYBILL_PORT', '-1'],
    ['WAYBILL_RATE_LIMIT', '0'],
    ['WAYBILL_MOVERS', '1.5'],
    ['WAYBILL_TRANSFER_RETRY_DELAYS', '10s,,60s'],
    ['WAYBILL_TRANSFER_RETRY_DELAYS', '10'],
    ['WAYBILL_WEBHOOK_ALLOW_CIDRS', '10.0.0.0/33'],
    ['WAYBILL_WEBHOOK_ALLOW_CIDRS', '10.0.0.1'],
    ['WAYBILL_WEBHOOK_ALLOW_CIDRS', '10/8'],
    ['WAYBILL_WEBHOOK_ALLOW_CIDRS', '012.0.0.0/8'],
    ['WAYBILL_WEBHOOK_ALLOW_CIDRS', 'fd00::/129'],
    ['WAYBILL_TRUSTED_PROXIES', 'proxy.example.com'],
    ['WAYBILL_STREAM_PREFIX', '$ce-'],
    ['WAYBILL_CHECKPOINT_SINKS', 'ftp://files/checkpoints'],
    ['WAYBILL_ALLOW_UNLIMITED_KEYS', 'yes'],
    ['EVENTSTORE_URL', 'http://localhost:2113'],
  ])('rejects %s=%s', (name, value) => {
    expect(problemsOf({ [name]: value })).toEqual([
      expect.stringMatching(new RegExp(`^${name} .*must`)),
    ]);
  });

  it('requires a master key with an external database', () => {
    const problems = problemsOf({ DATABASE_URL: 'postgres://u@h/d' });
    expect(problems).toEqual([expect.stringContaining('openssl rand -base64 32')]);
  });

  it('never repeats a secret', () => {
    const problems = problemsOf({
      DATABASE_URL: 'mysql://u:canary@h/d',
      WAYBILL_MASTER_KEY: 'canary',
    });
    expect(problems).toHaveLength(2);
    expect(problems.join()).not.toContain('canary');
  });

  it('repeats a wrong URL without its password', () => {
    const url = 'https://user:canary@witness.example.com/log';
    expect(problemsOf({ WAYBILL_CHECKPOINT_SINKS: `/mnt/audit,${url}` })).toEqual([
      expect.stringContaining('/mnt/audit,https://…@witness.example.com/log"'),
    ]);
  });

  it.each([
    ['WAYBILL_OIDC_CLIENT_SECRET', '', /^WAYBILL_OIDC_CLIENT_SECRET missing: .* needs all of/],
    ['WAYBILL_OIDC_ISSUER', 'http://login.example.com', /must be an https URL/],
    ['WAYBILL_OIDC_ISSUER', 'https://login.example.com/?a=b', /must be an https URL/],
    ['WAYBILL_OIDC_ROLES', 'groups:ops=root@acc_default', /must be rules .* viewer, operator/],
    ['WAYBILL_OIDC_ROLES', 'groups:ops=admin', /must be rules/],
    ['WAYBILL_PUBLIC_URL', 'waybill.example.com', /must be a scheme and a host/],
    ['WAYBILL_PUBLIC_URL', 'https://example.com/waybill', /must be a scheme and a host/],
  ])('rejects %s=%s beside the other settings of OpenID Connect', (name, value, problem) => {
    const problems = problemsOf({ ...OIDC, [name]: value });
    expect(problems).toEqual([expect.stringMatching(problem)]);
    expect(problems.join()).not.toContain('canary');
  });

  it('names the list of settings if no name is similar', () => {
    expect(problemsOf({ WAYBILL_COLOUR_OF_THE_BAR: 'red' })).toEqual([
      expect.stringContaining('docs/settings.md'),
    ]);
  });

  it.each(['~', '~/waybill', '~ann/waybill'])('rejects the path %s', (path) => {
    const settings = { WAYBILL_TLS_CERT: path, WAYBILL_TLS_KEY: path, WAYBILL_DATA_DIR: path };
    expect(problemsOf(settings)).toEqual(
      Object.keys(settings).map(
        (name) =>
          `${name} is "${path}", but only a shell replaces ~: write the whole path, or ./~ for a ` +
          'folder that has this name',
      ),
    );
    expect(parseConfig({ WAYBILL_DATA_DIR: `./${path}` }).dataDir).toBe(resolve(path));
  });

  it('reads exactly the documented settings', async () => {
    const text = await readFile(join(import.meta.dirname, '..', 'docs', 'settings.md'), 'utf8');
    const rows = text.split('\n').filter((line) => line.startsWith('| `'));
    const documented = rows.flatMap((row) => (row.split('|')[1] as string).match(/\w+/g) ?? []);
    expect(documented.toSorted()).toEqual(SETTING_NAMES.toSorted());
  });

  it.each([
    [{ WAYBILL_EVENTSTORE_USER: 'u', WAYBILL_EVENTSTORE_PASSWORD: 'canary' }, 'without EVENTSTORE'],
    [
      { EVENTSTORE_URL: 'esdb://h', WAYBILL_EVENTSTORE_USER: 'u' },
      'WAYBILL_EVENTSTORE_PASSWORD is missing',
    ],
    [
      {
        EVENTSTORE_URL: 'esdb://u:canary@h',
        WAYBILL_EVENTSTORE_USER: 'u',
        WAYBILL_EVENTSTORE_PASSWORD: 'canary',
      },
      'set one of them',
    ],
    [
      { EVENTSTORE_URL: 'esdb://h?tlsCaFile=x', WAYBILL_EVENTSTORE_CA_FILE: 'x' },
      'set one of them',
    ],
    [
      { EVENTSTORE_URL: 'esdb://h?tls=false', WAYBILL_EVENTSTORE_CA_FILE: 'x' },
      'has no effect with tls=false in EVENTSTORE_URL',
    ],
  ] as [Record<string, string>, string][])(
    'rejects event store settings that contradict each other: %o',
    (environment, problem) => {
      const problems = problemsOf(environment).join('\n');
      expect(problems).toContain(problem);
      expect(problems).not.toContain('canary');
    },
  );
});
