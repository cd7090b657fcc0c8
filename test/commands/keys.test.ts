import { afterAll, beforeAll, expect, it } from 'vitest';
import { hashApiKey, isApiKey } from '../../src/commands/api-key.ts';
import { announceKeyExpiry, createKey, revokeKey } from '../../src/commands/keys.ts';
import { keyRequest } from '../../src/contract/keys.ts';
import { newId } from '../../src/domain/ids.ts';
import { listKeys } from '../../src/projections/catalog/queries.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import {
  CAUSE,
  openTestInstallation,
  type TestInstallation,
} from '../support/service/installation.ts';

const DAY_MS = 86_400_000;

describeWithPostgres('keys', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation();
  });
  afterAll(() => installation?.close());

  const create = (changes: Record<string, unknown> = {}, allowNever = false) =>
    createKey(
      installation.commands,
      keyRequest.parse({ name: 'ci', scopes: ['transfers:read'], ...changes }),
      CAUSE,
      { allowNever },
    );
  const find = async (id: string) =>
    (await listKeys(installation.sql)).find(({ key_id }) => key_id === id);
  const historyOf = (id: string) => installation.store.read(`key-${id}`);

  it('are shown once, and known by their hash at once', async () => {
    const { id, key } = await create();
    expect(isApiKey(key)).toBe(true);
    const found = await find(id);
    expect(found).toMatchObject({
      status: 'active',
      sha256: hashApiKey(key),
      last_four: key.slice(-4),
      account_id: 'acc_default',
    });
    const [created] = await historyOf(id);
    expect(JSON.stringify([found, created?.data])).not.toContain(key);
  });

  it('expire after 90 days by default', async () => {
    for (const [changes, days] of [
      [{}, 90],
      [{ expires_in: '365d' }, 365],
      [{ expires_in: '1h' }, 1 / 24],
    ] as const) {
      const { id, state } = await create(changes);
      const { created_at } = (await find(id))!;
      expect(Date.parse(state.expires_at!) - Date.parse(created_at)).toBe(days * DAY_MS);
    }
  });

  it.each(['366d', '999999999d', '8761h', '0s', 'never'])(
    'reject the lifetime %j',
    async (expires_in) => {
      await expect(create({ expires_in })).rejects.toMatchObject({
        code: 'validation_failed',
        details: { errors: [{ field: 'expires_in' }] },
      });
    },
  );

  it('never expire if the installation allows it', async () => {
    const { state } = await create({ expires_in: 'never' }, true);
    expect(state.expires_at).toBeNull();
  });

  it('are revoked when the command returns, and only once', async () => {
    const { id } = await create();
    await revokeKey(installation.commands, id, CAUSE);
    const found = await find(id);
    expect(found).toMatchObject({ status: 'revoked', revoked_at: expect.any(String) });
    await revokeKey(installation.commands, id, CAUSE);
    expect(await historyOf(id)).toHaveLength(2);
    expect(await find(id)).toEqual(found);
  });

  it('report an unknown state while the catalog does not catch up', async () => {
    const { id } = await create();
    const deps = { ...installation.commands, waitFor: () => Promise.resolve(false) };
    await expect(revokeKey(deps, id, CAUSE)).rejects.toMatchObject({ code: 'unavailable' });
    expect((await historyOf(id)).map(({ type }) => type)).toEqual(['key.created', 'key.revoked']);
  });

  it('cannot be revoked if they do not exist', async () => {
    await expect(revokeKey(installation.commands, newId('key'), CAUSE)).rejects.toMatchObject({
      code: 'not_found',
    });
  });

  it('are announced once before they expire', async () => {
    const soon = await create({ expires_in: '7d' });
    const late = await create({ expires_in: '8d' });
    for (const { id } of [soon, late, soon]) await announceKeyExpiry(installation, id, CAUSE);
    expect((await historyOf(soon.id)).slice(1)).toMatchObject([
      {
        type: 'key.expiring_soon',
        data: { key_id: soon.id, name: 'ci', expires_at: soon.state.expires_at, days_remaining: 7 },
      },
    ]);
    expect(await historyOf(late.id)).toHaveLength(1);
  });
});
