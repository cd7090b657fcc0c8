import pino from 'pino';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { SESSION_TOKENS } from '../../../src/adapters/vault.ts';
import { createKey } from '../../../src/commands/keys.ts';
import {
  registerWebhook,
  removeWebhook,
  rotateWebhookSecret,
} from '../../../src/commands/webhooks.ts';
import { webhookRequest } from '../../../src/contract/webhooks/requests.ts';
import { streamName } from '../../../src/domain/events/streams.ts';
import { newId } from '../../../src/domain/ids.ts';
import { createSessions, hashToken } from '../../../src/http/auth/sessions.ts';
import { IDEMPOTENCY_KEYS_KEPT } from '../../../src/http/idempotency/table.ts';
import { API_PURGES, API_RECORDS } from '../../../src/http/purges.ts';
import { housekeepOnce } from '../../../src/processes/housekeeping/housekeeping.ts';
import {
  PROJECTIONS,
  prepareReadModels,
  projectionConsumer,
} from '../../../src/projections/read-models.ts';
import { catchUpIfIdle } from '../../../src/projections/run-consumer.ts';
import { ABSENT_SERVER } from '../../support/file-servers/sftp/absent-server.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  configureSftp,
  openTestInstallation,
  type TestInstallation,
} from '../../support/service/installation.ts';

describeWithPostgres('a round of housekeeping', () => {
  let installation: TestInstallation;
  let orphan: string;
  beforeEach(async () => {
    installation = await openTestInstallation();
    await configureSftp(installation, 'files', ABSENT_SERVER as never);
    orphan = await installation.vault.seal('test', 'orphan');
  });
  afterEach(() => installation?.close());

  const cause = () => ({ actor: 'test', correlationId: newId('req') });
  const register = async () => {
    const request = webhookRequest.parse({
      url: 'https://receiver.example.com/',
      events: ['transfer.failed'],
    });
    return (await registerWebhook(installation.commands, 'acc_default', request, cause())).webhook;
  };
  const rotate = async (id: string, grace: string) =>
    (await rotateWebhookSecret(installation.commands, id, { secret: undefined, grace }, cause()))
      .webhook;
  const records = async () =>
    (await installation.sql<{ id: string }[]>`select id from work.vault`).map(({ id }) => id);

  /**
   * Adds an Idempotency-Key whose last use was this long before its expiry, as a Postgres interval.
   */
  const useKey = (key: string, before: string) => installation.sql`
    insert into work.idempotency_keys (account_id, route, key, fingerprint, reserved, created_at)
    values ('a', 'r', ${key}, 'f', '{}',
            now() - ${IDEMPOTENCY_KEYS_KEPT}::interval + ${before}::interval)`;

  /** Makes everything in the vault two hours old, and runs one whole round. */
  async function round(logger = installation.logger): Promise<void> {
    const { sql } = installation;
    await sql`update work.vault set created_at = now() - interval '2 hours'`;
    const deps = { ...installation, purges: API_PURGES, recordsOfApi: API_RECORDS, logger };
    await housekeepOnce(deps, new AbortController().signal);
  }

  test('keeps exactly the vault records that endpoints and webhooks reference', async () => {
    const graced = await register();
    const { secret_record, previous } = await rotate(graced.webhook_id, '1h');
    const leaked = await register();
    const mended = await rotate(leaked.webhook_id, '0s');
    const removed = await register();
    await removeWebhook(installation.commands, removed.webhook_id, cause());
    const [endpoint] = await installation.commands.endpoints();
    expect(previous?.secret_record).toBe(graced.secret_record);

    await round();
    const named = [
      endpoint!.credentials_record,
      secret_record,
      graced.secret_record,
      mended.secret_record,
    ];
    expect((await records()).toSorted()).toEqual(named.toSorted());
  });

  test('keeps the tokens of a person until the session is removed', async () => {
    const { sql, vault } = installation;
    const sessions = createSessions(sql);
    const person = { subject: 'ann', name: null, email: null, sign_out_url: null };
    const tokensRecord = await vault.seal(SESSION_TOKENS, { access: 'a', refresh: 'r' });
    const roles = [{ role: 'viewer' as const, account: 'acc_default' }];
    const token = await sessions.beginPerson(person, { roles, tokensRecord });
    await round();
    expect(await records()).toContain(tokensRecord);
    await sessions.end(hashToken(token));
    await round();
    expect(await records()).not.toContain(tokensRecord);
  });

  test('deletes a secret after its grace time', async () => {
    const { webhook_id, secret_record } = await register();
    await rotate(webhook_id, '1ms');
    await installation.sql`
      update read.webhooks
         set state = jsonb_set(
               state,
               '{previous,until}',
               to_jsonb(to_char(now() at time zone 'UTC' - interval '61 minutes',
                                'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))`;
    await round();
    expect(await records()).not.toContain(secret_record);
  });

  test('deletes nothing from the vault during a rebuild of the catalog', async () => {
    const { sql, logId } = installation;
    const { secret_record } = await register();
    await sql`drop schema read cascade`;
    await prepareReadModels(sql, logId);
    const before = await records();
    await round();
    expect(await records()).toEqual(before);

    await catchUpIfIdle(installation, projectionConsumer(PROJECTIONS.catalog));
    await round();
    expect(await records()).toContain(secret_record);
    expect(await records()).not.toContain(orphan);
  });

  test('keeps an Idempotency-Key while a repetition needs its answer', async () => {
    await useKey('young', '1 minute');
    await round();
    expect(await installation.sql`select key from work.idempotency_keys`).toEqual([
      { key: 'young' },
    ]);
  });

  test('announces the keys that expire soon, even after one that fails', async () => {
    const { commands, sql, store } = installation;
    const lines: string[] = [];
    const expiring = async () => {
      const request = {
        account: 'acc_default',
        name: 'soon',
        scopes: ['transfers:read'],
        expires_in: '1d',
      } as const;
      return (
        await createKey(commands, { ...request, scopes: [...request.scopes] }, cause(), {
          allowNever: false,
        })
      ).id;
    };
    const before = await expiring();
    await sql`
      insert into read.keys
      select (jsonb_populate_record(k, '{"key_id": "key_gone", "sha256": "gone"}')).*
        from read.keys k`;
    const after = await expiring();
    await round(pino({ level: 'error' }, { write: (line) => lines.push(line) }));
    expect(lines.map((line) => JSON.parse(line).key_id)).toEqual(['key_gone']);
    for (const id of [before, after])
      expect((await store.read(streamName('key', id))).map(({ type }) => type)).toEqual([
        'key.created',
        'key.expiring_soon',
      ]);
  });

  test('needs no table that a rebuild after an upgrade has not created yet', async () => {
    const { sql } = installation;
    const lines: string[] = [];
    await sql`update read.checkpoints set version = version - 1 where name = 'transfers'`;
    await sql`drop table read.retention_records`;
    await round(pino({ level: 'warn' }, { write: (line) => lines.push(line) }));
    expect(lines).toEqual([]);
  });

  test('runs each step even if earlier ones fail, and logs the failures', async () => {
    const { sql } = installation;
    const lines: string[] = [];
    await sql`drop table work.samples, work.movers`;
    await round(pino({ level: 'error' }, { write: (line) => lines.push(line) }));
    expect(await records()).not.toContain(orphan);
    expect(lines.map((line) => JSON.parse(line).step)).toEqual(['sample', 'movers']);
  });
});
