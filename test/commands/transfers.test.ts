import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTransfer, reserveTransfer } from '../../src/commands/create-transfer.ts';
import { saveEndpoint } from '../../src/commands/save-endpoint.ts';
import {
  abortTransfer,
  admitTransfer,
  cancelTransfer,
  endAttempt,
  recordAfter,
  startTransfer,
} from '../../src/commands/transfers.ts';
import { endpointRequest } from '../../src/contract/endpoints/requests.ts';
import { transferRequest } from '../../src/contract/transfers/requests.ts';
import { streamName } from '../../src/domain/events/streams.ts';
import { newId } from '../../src/domain/ids.ts';
import type { AfterEvent } from '../../src/domain/transfers/after.ts';
import { stateAsOf } from '../../src/domain/transfers/history.ts';
import { FIGURES, VERIFICATION } from '../support/domain/samples.ts';
import { loseEventsAfter } from '../support/postgres/lose-events.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import {
  CAUSE,
  openTestInstallation,
  type TestInstallation,
} from '../support/service/installation.ts';

describeWithPostgres('a transfer', () => {
  let installation: TestInstallation;
  let endpointId: string;
  beforeAll(async () => {
    installation = await openTestInstallation();
    const common = {
      protocol: 'sftp',
      host: 'files.example.com',
      username: 'me',
      password: 'secret',
    };
    const open = endpointRequest.parse({ ...common, name: 'files', base_path: '/in' });
    endpointId = (await saveEndpoint(installation.commands, open, CAUSE)).endpointId;
    const closed = endpointRequest.parse({
      ...common,
      name: 'closed',
      base_path: '/closed',
      accounts: ['acc_other'],
    });
    await saveEndpoint(installation.commands, closed, CAUSE);
  });
  afterAll(() => installation?.close());

  const request = (changes: Record<string, unknown> = {}) =>
    transferRequest.parse({
      source_uri: 'sftp://elsewhere/out/a%20b.csv',
      destination_uri: 'sftp://files/x/',
      ...changes,
    });
  const create = (changes: Record<string, unknown> = {}, reserved = reserveTransfer()) =>
    createTransfer(installation.commands, 'acc_default', request(changes), CAUSE, reserved);
  const createOne = async () => (await create()).state.facts.transfer_id;
  const typesOf = async (id: string) =>
    (await installation.store.read(streamName('transfer', id))).map(({ type }) => type);

  describe('that is new', () => {
    it('is pending, with the file name appended to a folder', async () => {
      const reserved = reserveTransfer();
      const { state, revision } = await create(
        { priority: 'high', metadata: { ticket: '7' } },
        reserved,
      );
      expect(revision).toBe(0);
      expect(state).toMatchObject({
        status: 'pending',
        facts: {
          transfer_id: reserved.transferId,
          file_name: 'a b.csv',
          source: 'sftp://elsewhere/out/a%20b.csv',
          destination: 'sftp://files/x/a%20b.csv',
          destination_uri: 'sftp://files/x/',
          source_endpoint_id: null,
          destination_endpoint_id: endpointId,
          priority: 'high',
          metadata: { ticket: '7' },
          created_at: reserved.now,
        },
      });
    });

    it.each([
      [{ destination_uri: 'sftp://unknown/in/' }, 'endpoint_not_configured'],
      [{ destination_uri: 'sftp://files.example.com/elsewhere/' }, 'endpoint_not_configured'],
      [{ destination_uri: 'sftp://root@files/x/' }, 'endpoint_not_configured'],
      [{ destination_uri: 'sftp://closed/x/' }, 'endpoint_not_configured'],
      [{ source_uri: 'sftp://files/a', destination_uri: 'sftp://files/a' }, 'validation_failed'],
      [{ source_uri: 'sftp://files/d/a', destination_uri: 'sftp://files/d/' }, 'validation_failed'],
      [
        { source_uri: 'sftp://files/a', destination_uri: 'sftp://files.example.com:22/in/a' },
        'validation_failed',
      ],
      [
        { source_uri: 'sftp://files/%61', destination_uri: 'sftp://me@files/a' },
        'validation_failed',
      ],
      [{ destination_uri: 'sftp://files' }, 'validation_failed'],
    ])('with %j is rejected: %s', async (changes, code) => {
      const reserved = reserveTransfer();
      await expect(create(changes, reserved)).rejects.toMatchObject({
        code,
        details: { errors: [{ field: 'destination_uri', code }] },
      });
      expect(await typesOf(reserved.transferId)).toEqual([]);
    });

    it('may use an endpoint that is open to its account', async () => {
      const { state } = await createTransfer(
        installation.commands,
        'acc_other',
        request({ destination_uri: 'sftp://closed/x/' }),
        CAUSE,
      );
      expect(state.facts.account_id).toBe('acc_other');
    });

    it('is rejected if the account has too many open transfers', async () => {
      const deps = { ...installation.commands, maxOpenTransfers: 1 };
      const one = await createTransfer(deps, 'acc_full', request(), CAUSE);
      await installation.commands.waitFor('transfers', one.position);
      await expect(createTransfer(deps, 'acc_full', request(), CAUSE)).rejects.toMatchObject({
        code: 'limit_reached',
      });
      const ended = await cancelTransfer(deps, one.state.facts.transfer_id, CAUSE);
      await installation.commands.waitFor('transfers', ended.position);
      await createTransfer(deps, 'acc_full', request(), CAUSE);
    });

    it('is created once from one reservation, also by concurrent requests', async () => {
      const reserved = reserveTransfer();
      const handled = await Promise.all(Array.from({ length: 8 }, () => create({}, reserved)));
      handled.push(await create({}, reserved));
      expect(
        new Set(handled.map(({ position, state }) => `${position} ${state.facts.transfer_id}`))
          .size,
      ).toBe(1);
      const events = await installation.store.read(streamName('transfer', reserved.transferId));
      expect(events).toMatchObject([{ type: 'transfer.created' }]);
    });

    it('is not created again from its reservation after it has advanced', async () => {
      const reserved = reserveTransfer();
      await create({}, reserved);
      await cancelTransfer(installation.commands, reserved.transferId, CAUSE);
      await create({}, reserved);
      expect(await typesOf(reserved.transferId)).toEqual([
        'transfer.created',
        'transfer.cancelled',
      ]);
    });
  });

  const start = { claimId: 'clm_1', source: null, destination: null };
  const failure = {
    code: 'auth_failed',
    message: 'Authentication failed',
    phase: 'destination_sign_in',
  } as const;
  const completed = {
    type: 'completed',
    sizeBytes: 1,
    speedBps: null,
    checksumSha256: 'ab'.repeat(32),
    verification: VERIFICATION,
  } as const;
  const released = { type: 'released', figures: FIGURES, why: 'shutdown' } as const;
  const steps = {
    admit: (id: string) => admitTransfer(installation, id, CAUSE),
    start: (id: string) => startTransfer(installation, id, start, CAUSE),
    complete: (id: string) => endAttempt(installation, id, 'clm_1', completed, CAUSE),
    fail: (id: string) =>
      endAttempt(
        installation,
        id,
        'clm_1',
        { type: 'failed', failure, figures: FIGURES, retryDelays: [1] },
        CAUSE,
      ),
    release: (id: string) => endAttempt(installation, id, 'clm_1', released, CAUSE),
    cancel: (id: string) => cancelTransfer(installation.commands, id, CAUSE),
  };
  type Step = keyof typeof steps;

  it.each([released, completed])(
    'is not ended as $type by a mover whose start a failover lost, while another moves it',
    async (outcome) => {
      const { state, position } = await create();
      const { transfer_id: id } = state.facts;
      const started = await steps.start(id);
      await loseEventsAfter(installation.sql, position as bigint);
      const other = { ...start, claimId: 'clm_2' };
      const { last } = await startTransfer(installation, id, other, CAUSE);

      const ended = await endAttempt(installation, id, 'clm_1', outcome, CAUSE, started);
      expect(ended).toMatchObject({ events: [], last, state: { claim_id: 'clm_2' } });
      expect(await typesOf(id)).toEqual([
        'transfer.created',
        'transfer.queued',
        'transfer.in_progress',
      ]);
      const { events } = await endAttempt(installation, id, 'clm_2', completed, CAUSE);
      expect(events.map((event) => event.type)).toEqual(['transfer.completed']);
    },
  );

  it.each<[string, Step[]]>([
    ['pending', []],
    ['queued', ['admit']],
    ['queued', ['admit', 'start', 'release']],
  ])('that is %s after %j can be cancelled, but not aborted', async (status, path) => {
    const id = await createOne();
    for (const step of path) await steps[step](id);
    await expect(abortTransfer(installation.commands, id, CAUSE)).rejects.toMatchObject({
      code: 'transfer_not_cancellable',
      details: { transfer_id: id, current_status: status },
    });
    expect((await cancelTransfer(installation.commands, id, CAUSE)).state.status).toBe('cancelled');
    expect((await typesOf(id)).at(-1)).toBe('transfer.cancelled');
  });

  it.each<[string, Step[]]>([
    ['in_progress', ['admit', 'start']],
    ['completed', ['admit', 'start', 'complete']],
    ['failed', ['admit', 'start', 'fail']],
    ['cancelled', ['cancel']],
  ])('that is %s cannot be cancelled', async (status, path) => {
    const id = await createOne();
    for (const step of path) await steps[step](id);
    const before = await typesOf(id);
    await expect(cancelTransfer(installation.commands, id, CAUSE)).rejects.toMatchObject({
      code: 'transfer_not_cancellable',
      details: { transfer_id: id, current_status: status },
    });
    expect(await typesOf(id)).toEqual(before);
  });

  it('is aborted in progress, and its claim is then void', async () => {
    const id = await createOne();
    await steps.admit(id);
    await steps.start(id);
    expect(await abortTransfer(installation.commands, id, CAUSE)).toMatchObject({
      state: { status: 'failed', facts: { error: { code: 'aborted_by_operator' } } },
    });
    expect(await steps.complete(id)).toMatchObject({ events: [], state: { status: 'failed' } });
  });

  it('is started or cancelled, never both', async () => {
    for (let i = 0; i < 10; i++) {
      const id = await createOne();
      await steps.admit(id);
      const [, cancelled] = await Promise.all([
        steps.start(id),
        steps.cancel(id).then(
          () => true,
          () => false,
        ),
      ]);
      expect((await typesOf(id)).slice(2)).toEqual([
        cancelled ? 'transfer.cancelled' : 'transfer.in_progress',
      ]);
    }
  });

  it.each<[string, string, Step[]]>([
    ['completed', 'completed_at', ['admit', 'start', 'complete']],
    ['failed', 'failed_at', ['admit', 'start', 'fail']],
    ['cancelled', 'cancelled_at', ['admit', 'cancel']],
  ])('is %s at its time %s, also if another clock is ahead', async (status, field, path) => {
    const ahead = { ...reserveTransfer(), now: new Date(Date.now() + 3_600_000).toISOString() };
    const id = (await create({}, ahead)).state.facts.transfer_id;
    for (const step of path) await steps[step](id);
    const events = await installation.store.read(streamName('transfer', id));
    const data = events.at(-1)?.data as Record<string, string> | undefined;
    expect(stateAsOf(events, { time: data?.[field] as string }).status).toBe(status);
  });

  it('has taken its steps at their times, also if another clock is ahead', async () => {
    const ahead = { ...reserveTransfer(), now: new Date(Date.now() + 3_600_000).toISOString() };
    const after = { source: 'keep', destination_marker: '.done' };
    const id = (await create({ after }, ahead)).state.facts.transfer_id;
    await steps.start(id);
    const { state, ...known } = await steps.complete(id);
    const written = (now: string): AfterEvent => ({
      type: 'transfer.marker_written',
      data: { marker: 'sftp://files/x/a%20b.csv.done', written_at: now },
    });
    await recordAfter(installation, id, written, CAUSE, { state, ...known });
    const events = await installation.store.read(streamName('transfer', id));
    const data = events.at(-1)?.data as { written_at: string } | undefined;
    const then = stateAsOf(events, { time: data?.written_at as string });
    expect(then).toMatchObject({ after: { marker: {} } });
  });

  it('is not found under an unknown id', async () => {
    for (const command of [cancelTransfer, abortTransfer, admitTransfer]) {
      const answer = command(installation.commands, newId('txr'), CAUSE);
      await expect(answer).rejects.toMatchObject({ code: 'not_found' });
    }
  });
});
