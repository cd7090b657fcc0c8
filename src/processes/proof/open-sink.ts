import { fileURLToPath } from 'node:url';
import { createFolderSink } from '../../adapters/checkpoint-sinks/folder.ts';
import type { CheckpointSink } from '../../adapters/checkpoint-sinks/port.ts';
import { createWitnessSink } from '../../adapters/checkpoint-sinks/witness.ts';
import { createEndpointSink, type EndpointSinkDeps } from './endpoint-sink.ts';

/**
 * Opens the sink at a URL: `file:///folder`, `https://...` of a witness, or a folder at a
 * configured endpoint, such as `s3://archive/checkpoints/`.
 */
export function openCheckpointSink(deps: EndpointSinkDeps, url: string): CheckpointSink {
  if (url.startsWith('file:')) return createFolderSink(fileURLToPath(url));
  return /^https?:/.test(url) ? createWitnessSink(url) : createEndpointSink(deps, url);
}
