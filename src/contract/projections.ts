import { z } from 'zod';
import { timestamp } from './instants.ts';

/** The count of unprocessed events stops here. */
export const LAG_COUNTED_TO = 1_000;

const position = z
  .string()
  .describe('Position in the log, as a decimal string.')
  .meta({ examples: ['4711'] });
const name = z.string().meta({ examples: ['transfers'] });

const task = z
  .strictObject({
    state: z
      .enum(['waiting', 'running', 'done', 'failed'])
      .meta({ id: 'ProjectionTaskState' })
      .describe('`waiting` until a process with the role `projector` starts it.'),
    requested_by: z.string(),
    requested_at: timestamp,
    started_at: timestamp.nullable(),
    finished_at: timestamp.nullable(),
    events: z.int().describe('Events read so far.'),
    share: z.number().describe('Part of the log that has been read, 0 to 1.'),
    events_per_second: z.int().nullable(),
    seconds_left: z.number().nullable(),
    differences: z
      .array(z.string())
      .nullable()
      .describe('Keys of rows that differ from the log, at most 20. Null until they are compared.'),
    error: z.string().nullable().describe('Why the task failed.'),
  })
  .meta({ id: 'ProjectionTask' });

export const projection = z
  .strictObject({
    name,
    state: z
      .enum(['running', 'stopped', 'failed'])
      .meta({ id: 'ProjectionState' })
      .describe(
        '`stopped`: no process runs it. `failed`: the process that answers runs it and cannot ' +
          'continue.',
      ),
    detail: z
      .string()
      .nullable()
      .describe('What the process that answers reports about it, if it runs it.'),
    version: z.int(),
    position,
    log_position: position.describe('The end of the log.'),
    lag_events: z
      .int()
      .describe(
        `Events that it has not processed, counted up to ${LAG_COUNTED_TO.toLocaleString('en')}.`,
      ),
    lag_seconds: z.number().describe('Age of the oldest event that it has not processed.'),
    moved_at: timestamp,
    tasks: z
      .array(z.enum(['rebuild', 'verify']).meta({ id: 'ProjectionTaskKind' }))
      .describe('Tasks that can be requested.'),
    rebuild: task.nullable().describe('The last rebuild that was requested over the API.'),
    verify: task.nullable().describe('The last verification that was requested over the API.'),
  })
  .meta({ id: 'Projection' });
export type Projection = z.output<typeof projection>;

export const projectionList = z
  .strictObject({ data: z.array(projection).describe('By name.') })
  .meta({ id: 'ProjectionList' });
export type ProjectionList = z.output<typeof projectionList>;

export const projectionParams = z.object({ name });
