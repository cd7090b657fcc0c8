import { describeEndpointValues, FEW } from './endpoint-values.ts';

describeEndpointValues(FEW);
