import type { EventStore } from '../adapters/event-store/port.ts';
import type { Consumer } from '../projections/consumer.ts';
import { PROJECTIONS, projectionConsumer } from '../projections/read-models.ts';
import { dispatchConsumer } from './dispatch/consumer.ts';
import { createOutboxConsumer } from './webhooks/outbox.ts';

/** Returns every consumer of the log: the projections, `dispatch` and `outbox`. */
export function allConsumers(store: EventStore): Consumer[] {
  const projections = Object.values(PROJECTIONS).map((projection) =>
    projectionConsumer(projection),
  );
  return [...projections, dispatchConsumer, createOutboxConsumer(store)];
}
