import { describeEndpointValues, NASTY } from './values.ts';

describeEndpointValues(NASTY);
