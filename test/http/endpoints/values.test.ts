import { describeEndpointValues, FEW } from './values.ts';

describeEndpointValues(FEW);
