import { createFlow, requestRun, reserveFlow } from '../../../src/commands/flows.ts';
import { flowRequest } from '../../../src/contract/flows/requests.ts';
import type { StoredEvent } from '../../../src/domain/events/event.ts';
import { streamName } from '../../../src/domain/events/streams.ts';
import { newId } from '../../../src/domain/ids.ts';
import { type FlowRun, listRuns } from '../../../src/projections/flows/queries.ts';
import { CAUSE, type TestInstallation } from './installation.ts';
import { until } from './transfers.ts';

/** Returns the path of a folder that no URI can name: what follows its name is not UTF-8. */
export function unnameable(parent: string, name = ''): Buffer {
  return Buffer.from(`${parent}/${name}\xff`, 'latin1');
}

export interface Flows {
  /**
   * Creates a flow from a folder of `alpha` to one of `beta`, and returns its id. The clock of the
   * process that creates it can be ahead.
   */
  create(folder: string, more?: object, aheadMs?: number): Promise<string>;
  /** Asks for a run, waits until it has ended, and returns it. */
  run(flowId: string): Promise<FlowRun>;
  request(flowId: string): Promise<string>;
  ended(flowId: string, runId: string): Promise<FlowRun>;
  runs(flowId: string): Promise<FlowRun[]>;
  events(flowId: string): Promise<StoredEvent[]>;
  /** The file names of all transfers of a flow, sorted: each as often as it was taken. */
  taken(flowId: string): Promise<string[]>;
}

/** Flows of an installation whose folder must not wait for files to rest. */
export function flowsOf(pair: { installation: TestInstallation }): Flows {
  const flows: Flows = {
    async create(folder, more = {}, aheadMs = 0) {
      const request = flowRequest.parse({
        name: folder,
        source: { uri: `sftp://alpha/${folder}/`, recursive: true },
        ready: { unchanged_for: '0s' },
        destination_uri: `sftp://beta/${folder}/`,
        ...more,
      });
      const { commands } = pair.installation;
      const { state, position } = await createFlow(commands, 'acc_default', request, CAUSE, {
        ...reserveFlow(),
        now: new Date(Date.now() + aheadMs).toISOString(),
      });
      await commands.waitFor('flows', position);
      return state.flow_id;
    },
    async request(flowId) {
      const { commands } = pair.installation;
      const asked = await requestRun(commands, 'acc_default', flowId, newId('run'), CAUSE);
      await commands.waitFor('flows', asked.position);
      return asked.runId;
    },
    ended: (flowId, runId) =>
      until(`the run ${runId} ends`, async () =>
        (await flows.runs(flowId)).find(({ run_id, ended_at }) => run_id === runId && ended_at),
      ),
    run: async (flowId) => flows.ended(flowId, await flows.request(flowId)),
    async runs(flowId) {
      return (await listRuns(pair.installation.sql, flowId, { limit: 1_000, offset: 0 })).runs;
    },
    events: (flowId) => pair.installation.store.read(streamName('flow', flowId)),
    async taken(flowId) {
      const rows = await pair.installation.sql<{ name: string }[]>`
        select t.state -> 'facts' ->> 'file_name' as name
          from read.transfers t join read.batches b on b.batch_id = t.state -> 'facts' ->> 'batch_id'
         where b.state -> 'source' ->> 'flow_id' = ${flowId} order by 1`;
      return rows.map(({ name }) => name);
    },
  };
  return flows;
}
