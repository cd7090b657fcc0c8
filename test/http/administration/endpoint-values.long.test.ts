import { describeEndpointValues, NASTY } from './endpoint-values.ts';

describeEndpointValues(NASTY);
