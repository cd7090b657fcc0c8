import { describeFlowWriter } from './flow-writer.ts';

await describeFlowWriter(10_000);
