import { differences, same } from '../canonical.ts';
import type { Report } from '../report.ts';
import type { LogContents } from './contents.ts';
import type { Fields, LoggedEvent } from './event.ts';
import type { CatalogState } from './fold-catalog.ts';

type Run = Fields & { run_id: string };

const runsOf = ({ open_runs }: CatalogState) => open_runs as Run[];
const next = (before: CatalogState, changes: Fields): CatalogState => ({
  ...before,
  ...changes,
  revision: Number(before.revision) + 1,
});

/** What each event changes in the state of a flow. */
export const FLOW_CHANGES: Record<string, (before: CatalogState, data: Fields) => CatalogState> = {
  'flow.updated': (before, { updated_at, ...settings }) =>
    next(before, {
      ...settings,
      updated_at,
      ...(settings.trigger !== undefined && { scheduled_from: updated_at }),
    }),
  'flow.paused': (before, { paused_at }) =>
    next(before, { status: 'paused', updated_at: paused_at }),
  'flow.resumed': (before, { resumed_at }) =>
    next(before, { status: 'active', updated_at: resumed_at, scheduled_from: resumed_at }),
  'flow.removed': (before, { removed_at }) =>
    next(before, { status: 'removed', updated_at: removed_at, requested: null }),
  'flow.files_skipped': (before, { through, last }) =>
    next(before, { skipping: last ? null : { through } }),
  'flow.run_requested': (before, data) => next(before, { requested: data }),
  'flow.run_empty': (before) => next(before, { requested: null }),
  'flow.run_started': (before, data) => {
    const { requested } = before as { requested?: Run | null };
    return next(before, {
      open_runs: [...runsOf(before), { ...data, listed: false }],
      requested: requested?.run_id === data.run_id ? null : requested,
    });
  },
  'flow.run_listed': (before, { run_id }) =>
    next(before, {
      open_runs: runsOf(before).map((run) =>
        run.run_id === run_id ? { ...run, listed: true } : run,
      ),
    }),
  'flow.run_completed': (before, { run_id }) =>
    next(before, { open_runs: runsOf(before).filter((run) => run.run_id !== run_id) }),
  'flow.run_failed': (before, { error, failed_at }) => {
    const { failing } = before as { failing?: { since: string } | null };
    return next(before, { failing: { error, since: failing?.since ?? failed_at } });
  },
  'flow.recovered': (before) => next(before, { failing: null }),
};

/** Checks that no run of a flow takes a version that an earlier one took, unless that failed. */
export function noteTaken(
  taken: Set<string>,
  batch: CatalogState | undefined,
  { items }: Fields,
  report: Report,
): void {
  const source = batch?.source as Fields | undefined;
  if (source?.type !== 'flow') return;
  for (const { source_uri, version, retry_of } of items as Fields[]) {
    report.count('flow_files');
    const key = `${source.flow_id} ${source_uri} ${version}`;
    if (taken.has(key) && retry_of === undefined)
      report.finding('flows.files', String(source.flow_id), `it takes ${key} twice`);
    taken.add(key);
  }
}

/** Checks that a run starts after the listing of the one before, and ends as its batch did. */
export function checkRun(
  { type, data }: LoggedEvent,
  before: CatalogState | undefined,
  { batches, batchEnds }: LogContents,
  wrong: (problem: string) => void,
): void {
  const open = before ? runsOf(before) : [];
  if (type === 'flow.run_started' && open.some(({ listed }) => !listed))
    wrong('a run starts while another one is listed');
  if (type !== 'flow.run_completed') return;
  const end = batchEnds.get(String(data.batch_id));
  const source = batches.get(String(data.batch_id))?.state.source as Fields | undefined;
  if (source?.run_id !== data.run_id || source?.flow_id !== data.flow_id)
    wrong('its batch is of another run');
  if (!end) {
    wrong(`its batch ${data.batch_id} has not ended`);
    return;
  }
  const { items: files, ...others } = end.counts as Fields;
  const expected = { counts: { files, ...others }, bytes: end.bytes, status: end.status };
  const { counts, bytes, status } = data;
  if (!same({ counts, bytes, status }, expected))
    wrong(differences({ counts, bytes, status }, expected));
}

/** Checks that each run of each flow has ended. */
export function checkFlows({ flows }: LogContents, report: Report): void {
  report.count('flows', flows.size);
  for (const [id, { state }] of flows)
    for (const { run_id } of runsOf(state))
      report.finding('flows.end', id, `its run ${run_id} has not ended`);
}
