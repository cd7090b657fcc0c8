import type { Decider } from '../events/decider.ts';
import { type Event, eventGuard } from '../events/event.ts';

/**
 * Says which endpoint holds the name from now on. The endpoint's own stream says whether it is
 * configured.
 */
export type EndpointNameEvent = Event<
  'endpoint_name.claimed',
  { name: string; endpoint_id: string }
>;

export type EndpointNameState = { status: 'none' } | { status: 'claimed'; endpoint_id: string };

export interface EndpointNameCommand {
  type: 'claim';
  name: string;
  endpoint_id: string;
  /** The holder that this claim replaces, because its endpoint was removed; null if none. */
  replaces: string | null;
}

/** Decides which endpoint holds a name. A claim has no effect while another endpoint holds it. */
export const endpointNameDecider: Decider<
  EndpointNameState,
  EndpointNameCommand,
  EndpointNameEvent
> = {
  initialState: () => ({ status: 'none' }),

  decide({ name, endpoint_id, replaces }, state) {
    const free = state.status === 'none' || state.endpoint_id === replaces;
    return free ? [{ type: 'endpoint_name.claimed', data: { name, endpoint_id } }] : [];
  },

  evolve(state, event) {
    if (!isEndpointNameEvent(event)) return state;
    return { status: 'claimed', endpoint_id: event.data.endpoint_id };
  },

  accountOf: () => null,
};

const isEndpointNameEvent = eventGuard<EndpointNameEvent>({ 'endpoint_name.claimed': true });
