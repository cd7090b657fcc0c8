import type { EventStore } from '../adapters/event-store/port.ts';
import { endpointNameDecider } from '../domain/endpoints/name.ts';
import { DomainError } from '../domain/errors.ts';
import { streamName } from '../domain/events/streams.ts';
import { newId } from '../domain/ids.ts';
import { type Cause, handle } from './handle.ts';

/** Maximum number of removals of the name's holder during one claim, before it gives up. */
const ATTEMPTS = 10;

/**
 * Claims a name for an endpoint and returns the id that holds it, which may be another one.
 *
 * The log alone makes names of endpoints unique. Each name has a stream. The last claim in it names
 * the holder: the one endpoint that may be configured under the name.
 *
 * - A claim is appended at the revision that its writer read, so one of two writers wins.
 * - A holder is replaced only after its removal. A removal is final: the stream of a removed
 *   endpoint takes no configuration.
 * - A writer that finds a holder without events adopts its id. The append to that stream, at
 *   `no_stream`, lets one of them win. So a crash between claim and configuration blocks no name.
 *
 * Endpoints of older versions have no claim: look them up in the catalog first. Throws
 * `unavailable` if the name's holder is removed too often meanwhile.
 */
export async function claimName(
  store: EventStore,
  name: string,
  endpointId: string,
  isRemoved: (holder: string) => Promise<boolean>,
  cause: Cause,
): Promise<string> {
  let endpoint_id = endpointId;
  let replaces: string | null = null;
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const { state } = await handle(
      store,
      endpointNameDecider,
      streamName('endpoint_name', name),
      { type: 'claim', name, endpoint_id, replaces },
      cause,
    );
    const holder: string = state.status === 'claimed' ? state.endpoint_id : endpoint_id;
    if (!(await isRemoved(holder))) return holder;
    replaces = holder;
    // Another writer adopted this id, configured an endpoint under it and removed it.
    if (holder === endpoint_id) endpoint_id = newId('end');
  }
  throw new DomainError(
    'unavailable',
    `Other requests keep changing the endpoint ${name}; try again in a moment`,
  );
}
