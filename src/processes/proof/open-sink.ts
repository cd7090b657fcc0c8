import { fileURLToPath } from 'node:url';
import { createFolderSink } from '../../adapters/checkpoint-sinks/folder.ts';
import type { CheckpointSink } from '../../adapters/checkpoint-sinks/port.ts';
import { createWitnessSink } from '../../adapters/checkpoint-sinks/witness.ts';
import { sinkKindOf } from '../../domain/proof/sink-url.ts';
import { createEndpointSink, type EndpointSinkDeps } from './endpoint-sink.ts';
import type { NamedSink } from './sinks.ts';

/** Opens the sinks of the settings, in their order. */
export function openSinks(deps: EndpointSinkDeps, urls: readonly string[]): NamedSink[] {
  return urls.map((url) => ({ url, sink: openCheckpointSink(deps, url) }));
}

/** Opens the sink at a URL of the settings. */
export function openCheckpointSink(deps: EndpointSinkDeps, url: string): CheckpointSink {
  const kind = sinkKindOf(url);
  switch (kind) {
    case 'folder':
      return createFolderSink(fileURLToPath(url));
    case 'endpoint':
      return createEndpointSink(deps, url);
    case 'witness':
      return createWitnessSink(url);
    case null:
      throw new TypeError(`${url} is no URL of a checkpoint sink`);
  }
}
