/*
 * How clients read the transfers that they have created.
 *
 * With the log in the same Postgres, the answer leaves as soon as the creation is in the log. A
 * request whose route `showsTransfers` learns from the statement that admits it which position the
 * read model must reach to show all transfers, and waits for it. So writers do not wait, and readers
 * wait only while transfers that were just created are missing, in every process.
 *
 * The head of an EventStoreDB is not in Postgres. There, the writer waits.
 */
import type { FastifyRequest } from 'fastify';
import type { CommandDeps } from '../commands/deps.ts';

/** Returns when a client may get the answer to a creation whose last event is at `position`. */
export async function untilReadable(
  { store, waitFor }: CommandDeps,
  position: bigint | null,
): Promise<void> {
  const isUrgent = store.queryNewest === undefined;
  // Not only for the writer: a wait also catches up a read model that no process follows, and a
  // wait that times out turns readiness red.
  const shown = waitFor('transfers', position, isUrgent);
  if (isUrgent) await shown;
}

/** Returns when the read model shows the transfers that it lacked when the request began. */
export async function untilTransfersShown(
  { waitToRead }: Pick<CommandDeps, 'waitToRead'>,
  { unshown }: FastifyRequest,
): Promise<void> {
  if (unshown !== null) await waitToRead('transfers', unshown);
}
