import { afterAll, beforeAll, expect, it } from 'vitest';
import { WEBHOOK_SECRET } from '../../src/adapters/vault.ts';
import {
  MAX_WEBHOOKS,
  registerWebhook,
  removeWebhook,
  reserveWebhook,
  rotateWebhookSecret,
  updateWebhook,
} from '../../src/commands/webhooks.ts';
import { webhookChanges, webhookRequest } from '../../src/contract/webhooks/requests.ts';
import { streamName } from '../../src/domain/events/streams.ts';
import { newId } from '../../src/domain/ids.ts';
import { findWebhook, listWebhooks } from '../../src/projections/catalog/queries.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { openTestInstallation, type TestInstallation } from '../support/service/installation.ts';

const GENERATED = /^whsec_[A-Za-z0-9+/]{43}=$/;

describeWithPostgres('webhooks', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation();
  });
  afterAll(() => installation?.close());

  const cause = () => ({ actor: 'test', correlationId: newId('req') });
  const request = (changes: Record<string, unknown> = {}) =>
    webhookRequest.parse({
      url: 'https://receiver.example.com/hook',
      events: ['transfer.completed'],
      ...changes,
    });
  const register = (changes: Record<string, unknown> = {}, account = 'acc_default') =>
    registerWebhook(installation.commands, account, request(changes), cause());
  const rotate = (id: string, changes: Record<string, unknown> = {}, why = cause()) =>
    rotateWebhookSecret(
      installation.commands,
      id,
      { secret: undefined, grace: '24h', ...changes },
      why,
    );
  const secretIn = async (record: string) =>
    (await installation.vault.open<{ secret: string }>(record, WEBHOOK_SECRET)).secret;
  const typesOf = async (id: string) =>
    (await installation.store.read(streamName('webhook', id))).map(({ type }) => type);

  it('are registered and found at once, with their secret only in the vault', async () => {
    const { webhook, secret } = await register();
    expect(webhook).toMatchObject({
      status: 'active',
      enabled: true,
      account_id: 'acc_default',
      events: ['transfer.completed'],
    });
    expect(secret).toMatch(GENERATED);
    expect(await secretIn(webhook.secret_record)).toBe(secret);
    expect(await findWebhook(installation, 'acc_default', webhook.webhook_id)).toEqual(webhook);
    expect(await findWebhook(installation, 'acc_other', webhook.webhook_id)).toBeNull();
    const events = await installation.store.read(streamName('webhook', webhook.webhook_id));
    expect(JSON.stringify(events.map(({ data, metadata }) => [data, metadata]))).not.toContain(
      secret,
    );
  });

  it('keep a given secret, and do not show it', async () => {
    const { webhook, secret } = await register({ secret: 'a secret of my own' });
    expect(secret).toBeNull();
    expect(await secretIn(webhook.secret_record)).toBe('a secret of my own');
  });

  it('stay one webhook, with the same secret, when a request is repeated', async () => {
    const reserved = reserveWebhook();
    const first = await registerWebhook(
      installation.commands,
      'acc_default',
      request(),
      cause(),
      reserved,
    );
    expect(
      await registerWebhook(installation.commands, 'acc_default', request(), cause(), reserved),
    ).toEqual(first);
    expect(await typesOf(reserved.webhookId)).toEqual(['webhook.registered']);
  });

  it('are changed, and show it at once', async () => {
    const { webhook } = await register();
    const changed = await updateWebhook(
      installation.commands,
      webhook.webhook_id,
      webhookChanges.parse({ enabled: false }),
      cause(),
    );
    expect(changed).toMatchObject({ enabled: false, url: webhook.url });
    expect(await findWebhook(installation, 'acc_default', webhook.webhook_id)).toEqual(changed);
    await updateWebhook(
      installation.commands,
      webhook.webhook_id,
      webhookChanges.parse({ enabled: false }),
      cause(),
    );
    expect(await typesOf(webhook.webhook_id)).toEqual(['webhook.registered', 'webhook.updated']);
  });

  it('get a new secret, with a grace time for the old one', async () => {
    const { webhook, secret: first } = await register();
    const rotated = await rotate(webhook.webhook_id);
    expect(rotated.secret).toMatch(GENERATED);
    expect(rotated.secret).not.toBe(first);
    const { previous, secret_record, updated_at } = rotated.webhook;
    expect(await secretIn(secret_record)).toBe(rotated.secret);
    expect(previous?.secret_record).toBe(webhook.secret_record);
    expect(Date.parse(previous!.until) - Date.parse(updated_at)).toBe(24 * 3_600_000);

    const leaked = await rotate(webhook.webhook_id, { grace: '0s', secret: 'another of my own' });
    expect(leaked).toMatchObject({ secret: null, webhook: { previous: null } });
    expect(await secretIn(leaked.webhook.secret_record)).toBe('another of my own');
    await expect(rotate(webhook.webhook_id, { grace: '8d' })).rejects.toMatchObject({
      code: 'validation_failed',
    });
  });

  it('get one secret from one request, also when it is repeated', async () => {
    const { webhook } = await register();
    const why = cause();
    const first = await rotate(webhook.webhook_id, {}, why);
    expect(await rotate(webhook.webhook_id, {}, why)).toEqual(first);
    expect(await typesOf(webhook.webhook_id)).toEqual([
      'webhook.registered',
      'webhook.secret_rotated',
    ]);
  });

  it('get one secret from one request, also when it is repeated before the first try ends', async () => {
    const { webhook } = await register();
    const why = cause();
    const { commands } = installation;
    let repeated: ReturnType<typeof rotate> | undefined;
    const vault = {
      ...commands.vault,
      async seal(...record: Parameters<typeof commands.vault.seal>) {
        repeated ??= rotate(webhook.webhook_id, { grace: '0s' }, why);
        await repeated;
        return commands.vault.seal(...record);
      },
    };
    const first = await rotateWebhookSecret(
      { ...commands, vault },
      webhook.webhook_id,
      { secret: undefined, grace: '0s' },
      why,
    );
    expect(first).toEqual(await repeated);
    expect(await secretIn(first.webhook.secret_record)).toBe(first.secret);
    expect(await typesOf(webhook.webhook_id)).toEqual([
      'webhook.registered',
      'webhook.secret_rotated',
    ]);
  });

  it('are removed permanently', async () => {
    const { webhook } = await register({}, 'acc_removing');
    await removeWebhook(installation.commands, webhook.webhook_id, cause());
    await removeWebhook(installation.commands, webhook.webhook_id, cause());
    expect(await listWebhooks(installation.sql, 'acc_removing')).toEqual([]);
    await expect(rotate(webhook.webhook_id)).rejects.toMatchObject({ code: 'not_found' });
    await expect(
      updateWebhook(installation.commands, webhook.webhook_id, { enabled: true }, cause()),
    ).rejects.toMatchObject({
      code: 'not_found',
    });
  });

  it('lead to no forbidden address', async () => {
    await expect(register({ url: 'https://169.254.169.254/' })).rejects.toMatchObject({
      code: 'validation_failed',
      details: { errors: [{ field: 'url' }] },
    });
    const { webhook } = await register();
    await expect(
      updateWebhook(installation.commands, webhook.webhook_id, { url: 'https://[::1]/' }, cause()),
    ).rejects.toMatchObject({
      code: 'validation_failed',
    });
  });

  it("are rejected beyond the account's limit", async () => {
    const all = await Promise.all(
      Array.from({ length: MAX_WEBHOOKS }, () => register({}, 'acc_many')),
    );
    await expect(register({}, 'acc_many')).rejects.toMatchObject({ code: 'limit_reached' });
    await register({}, 'acc_few');
    await removeWebhook(installation.commands, all[0]!.webhook.webhook_id, cause());
    await register({}, 'acc_many');
    expect(await listWebhooks(installation.sql, 'acc_many')).toHaveLength(MAX_WEBHOOKS);
  });

  it('are not found under an unknown id', async () => {
    const id = newId('whk');
    await expect(rotate(id)).rejects.toMatchObject({ code: 'not_found' });
    await expect(removeWebhook(installation.commands, id, cause())).rejects.toMatchObject({
      code: 'not_found',
    });
  });
});
