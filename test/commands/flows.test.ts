import { afterAll, beforeAll, expect, it } from 'vitest';
import type { EventStore } from '../../src/adapters/event-store/port.ts';
import type { CommandDeps } from '../../src/commands/deps.ts';
import {
  changeFlow,
  loadFlow,
  requestRun,
  switchFlow,
  updateFlow,
} from '../../src/commands/flows.ts';
import type { FlowChanges } from '../../src/contract/flows/requests.ts';
import { newId } from '../../src/domain/ids.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { flowsOf } from '../support/service/flows.ts';
import {
  CAUSE,
  configureEndpoint,
  openTestInstallation,
  type TestInstallation,
} from '../support/service/installation.ts';

describeWithPostgres('the commands of a flow', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation();
    for (const name of ['alpha', 'beta'])
      await configureEndpoint(installation, {
        name,
        protocol: 'sftp',
        host: `${name}.example.com`,
        username: 'me',
        password: 'secret-1',
      });
    await installation.commands.catchUp('catalog');
  });
  afterAll(() => installation?.close());

  it('know what the read model does not show yet', async () => {
    const { commands } = installation;
    const flowId = await flowsOf({ installation }).create('inbox');
    // Nothing brings the read model up to date from here on: no process runs its consumer.
    const change = (type: 'pause' | 'resume') =>
      switchFlow(commands, 'acc_default', flowId, type, CAUSE);
    const typesOf = ({ events }: { events: { type: string }[] }) => events.map(({ type }) => type);
    expect(typesOf(await change('pause'))).toEqual(['flow.paused']);
    expect(typesOf(await change('pause'))).toEqual([]);
    expect(typesOf(await change('resume'))).toEqual(['flow.resumed']);

    const runId = newId('run');
    await requestRun(commands, 'acc_default', flowId, runId, CAUSE);
    const again = await requestRun(commands, 'acc_default', flowId, newId('run'), CAUSE);
    expect(again.runId).toBe(runId);
    expect(typesOf(again)).toEqual([]);
  });

  it('reject a change that makes a loop with a change at the same time', async () => {
    const { commands, store } = installation;
    const flowId = await flowsOf({ installation }).create('a');
    const update = (changes: FlowChanges, deps: CommandDeps = commands) =>
      updateFlow(deps, 'acc_default', flowId, changes, CAUSE);
    /** Changes the flow after another request has changed what this one has read. */
    const updateAfter = (other: FlowChanges, changes: FlowChanges) => {
      let isFirst = true;
      const append: EventStore['append'] = async (...given) => {
        if (isFirst) {
          isFirst = false;
          await update(other);
        }
        return store.append(...given);
      };
      return update(changes, { ...commands, store: { ...store, append } });
    };
    const source = { uri: 'sftp://alpha/c/', pattern: '*', exclude: [], recursive: true };
    await updateAfter({ name: 'other' }, { metadata: { order: '4711' } });
    await expect(
      updateAfter({ source }, { destination_uri: 'sftp://alpha/c/' }),
    ).rejects.toMatchObject({ code: 'validation_failed' });
    const { state } = await loadFlow(commands, 'acc_default', flowId);
    expect(state).toMatchObject({
      name: 'other',
      metadata: { order: '4711' },
      source,
      destination_uri: 'sftp://beta/a/',
    });
  });

  it('ask for a run once, although it has ended and another one is requested', async () => {
    const { commands } = installation;
    const flowId = await flowsOf({ installation }).create('again');
    const [first, second] = [newId('run'), newId('run')];
    const request = (runId: string) => requestRun(commands, 'acc_default', flowId, runId, CAUSE, 0);
    await request(first);
    const now = new Date().toISOString();
    const ended = { type: 'note_listing', error: null, run_id: first, now } as const;
    await changeFlow(commands, flowId, ended, CAUSE);
    for (const other of [null, second]) {
      if (other !== null) await request(other);
      const again = await request(first);
      expect(again).toMatchObject({ runId: first, events: [] });
    }
  });
});
