import { it } from 'vitest';
import { type EndpointNameEvent, endpointNameDecider } from '../../../src/domain/endpoints/name.ts';
import { specify } from '../../support/domain/decider.ts';

const given = specify(endpointNameDecider);
const claimed = (endpoint_id: string): EndpointNameEvent => ({
  type: 'endpoint_name.claimed',
  data: { name: 'files', endpoint_id },
});
const claim = (endpoint_id: string, replaces: string | null = null) =>
  ({ type: 'claim', name: 'files', endpoint_id, replaces }) as const;

it('the first claim takes the name', () => {
  given([])
    .when(claim('end_1'))
    .yields([claimed('end_1')]);
  given([claimed('end_1')])
    .when(claim('end_2'))
    .yields([]);
  given([claimed('end_1')])
    .when(claim('end_1'))
    .yields([]);
});

it('a later claim takes the name only from the holder that it names', () => {
  given([claimed('end_1')])
    .when(claim('end_2', 'end_1'))
    .yields([claimed('end_2')]);
  given([claimed('end_1'), claimed('end_2')])
    .when(claim('end_3', 'end_1'))
    .yields([]);
});
