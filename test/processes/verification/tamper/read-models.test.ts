import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Sql } from '../../../../src/adapters/postgres/connect.ts';
import { ensureSigningKey } from '../../../../src/commands/log.ts';
import type { ProjectionName } from '../../../../src/domain/projection-name.ts';
import { verifyLog } from '../../../../src/processes/verification/verify-log.ts';
import { PROJECTIONS } from '../../../../src/projections/read-models.ts';
import {
  rebuildProjection,
  verifyProjection,
} from '../../../../src/projections/rebuild/rebuild.ts';
import { describeWithPostgres } from '../../../support/postgres/test-database.ts';
import {
  CAUSE,
  openTestInstallation,
  type TestInstallation,
} from '../../../support/service/installation.ts';
import { writeSmallLog } from './small-log.ts';

/** A position that no log has reached. */
const BEYOND = 2n ** 62n;

/**
 * Each change of a table, and whether `audit verify` finds it. It compares transfers, and the keys of
 * the log.
 */
const CHANGES: [string, ProjectionName, boolean, (sql: Sql) => PromiseLike<unknown>][] = [
  ['another SHA-256', 'transfers', true, (sql) => forgeSum(sql, null)],
  [
    'another SHA-256, with the newest position',
    'transfers',
    true,
    async (sql) => forgeSum(sql, await reached(sql)),
  ],
  ['another SHA-256, beyond the end', 'transfers', true, (sql) => forgeSum(sql, BEYOND)],
  [
    'another account',
    'transfers',
    true,
    (sql) => sql`update read.transfers set account_id = 'acc_other' where status = 'completed'`,
  ],
  [
    'a transfer beyond the end',
    'transfers',
    true,
    (sql) => sql`
    insert into read.transfers
    select 'txr_01M7Z45QQ21H33ANQEZPD6VWZZ', account_id, status, created_at, destination, revision,
           ${BEYOND}, state from read.transfers limit 1`,
  ],
  [
    'a key with every right, beyond the end',
    'catalog',
    false,
    (sql) => sql`
    update read.keys set scopes = '{admin}', revoked_at = null, position = ${BEYOND}`,
  ],
  [
    'an entry of the audit log beyond the end',
    'audit',
    false,
    (sql) => sql`
    insert into read.audit
    select (jsonb_populate_record(a, jsonb_build_object('event_id', 'evt_forged', 'position',
             ${String(BEYOND)}::bigint))).* from read.audit a limit 1`,
  ],
  [
    'a checkpoint beyond the end',
    'transfers',
    true,
    (sql) => sql`update read.checkpoints set position = ${BEYOND} where name = 'transfers'`,
  ],
  [
    'another public key of the log',
    'proof',
    true,
    (sql) => sql`update read.proof_keys set public_key = ${publicKey()}`,
  ],
  ['no key of the log', 'proof', true, (sql) => sql`truncate read.proof_keys`],
  [
    'a further key of the log',
    'proof',
    true,
    (sql) => sql`
    insert into read.proof_keys
    select revision + 1, position, 'deadbeef', ${publicKey()}, key_record, since, statement, true
      from read.proof_keys`,
  ],
  [
    'a checkpoint beyond the end',
    'proof',
    false,
    (sql) => sql`update read.checkpoints set position = ${BEYOND} where name = 'proof'`,
  ],
];

function forgeSum(sql: Sql, position: bigint | null): PromiseLike<unknown> {
  return sql`
    update read.transfers set position = coalesce(${position}::bigint, position),
           state = jsonb_set(state::jsonb, '{checksum_sha256}', '"ffff"')::json
     where status = 'completed'`;
}

function publicKey(): string {
  const pair = generateKeyPairSync('ed25519');
  return pair.publicKey.export({ format: 'pem', type: 'spki' }) as string;
}

async function reached(sql: Sql): Promise<bigint> {
  const [row] = await sql<[{ position: bigint }]>`
    select position from read.checkpoints where name = 'transfers'`;
  return row.position;
}

describeWithPostgres('tables that were changed', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation();
    await writeSmallLog(installation);
    await ensureSigningKey(installation, CAUSE);
    for (const name of Object.keys(PROJECTIONS) as ProjectionName[])
      await installation.commands.catchUp(name);
  });
  afterAll(() => installation?.close());

  /** In small batches, most transfers end long before the end of the log. */
  async function auditVerify(batchSize: number): Promise<number> {
    const { store, patient, logId } = installation;
    const deps = { store, sql: patient, logId, comparesApi: true, comparesTree: true };
    const { faults } = await verifyLog(deps, {
      checkpoints: [],
      resume: null,
      batchSize,
      report: async () => undefined,
      onProgress: () => undefined,
      save: async () => undefined,
    });
    return faults;
  }

  it.each(CHANGES)('show %s in %s', async (_, name, isAudited, change) => {
    const deps = { ...installation, sql: installation.patient };
    expect(await verifyProjection(deps, name, () => undefined)).toMatchObject({ differences: [] });
    expect(await auditVerify(5)).toBe(0);
    await change(installation.sql);
    const { details } = await verifyProjection(deps, name, () => undefined);
    expect(details).not.toEqual([]);
    for (const batchSize of [5, 5_000])
      expect((await auditVerify(batchSize)) > 0, `batches of ${batchSize}`).toBe(isAudited);
    await rebuildProjection(deps, name, () => undefined);
  });
});
