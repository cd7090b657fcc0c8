import { describeFlowWriter } from './flow-writer.ts';

await describeFlowWriter(40);
