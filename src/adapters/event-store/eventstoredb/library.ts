import { EventStoreDBClient } from '@eventstore/db-client';
import type { CallOptions, ClientDuplexStream, Metadata } from '@grpc/grpc-js';

/** A private part of the library: a client of gRPC, without the messages of the library. */
interface GrpcClient {
  makeBidiStreamRequest(
    path: string,
    serialize: (message: Buffer) => Buffer,
    deserialize: (message: Buffer) => Buffer,
    ...callArguments: unknown[]
  ): ClientDuplexStream<Buffer, Buffer>;
}

/** Private parts of the library: they find the server, sign in, and end calls with their client. */
export interface Internals {
  GRPCStreamCreator<Call>(
    service: unknown,
    name: string,
    create: (grpc: GrpcClient) => Call,
  ): () => Promise<Call>;
  callArguments(
    options: { requiresLeader: boolean },
    call: { deadline: number },
  ): [Metadata, CallOptions];
  handleError(grpc: GrpcClient, error: Error): Promise<void>;
}

/**
 * Opens a client. After a failed call the library gives up its connection, or waits for the next
 * one if another call is looking for a node. It ignores the outcome, so a search without result
 * would end the process.
 */
export function openClient(url: string): EventStoreDBClient {
  const client = EventStoreDBClient.connectionString(url);
  const internals = internalsOf(client);
  const { handleError } = internals;
  internals.handleError = (grpc, error) => handleError(grpc, error).catch(() => undefined);
  return client;
}

export function internalsOf(client: EventStoreDBClient): Internals {
  return client as unknown as Internals;
}

/** Arguments of a call to the leader that lasts. */
export function lastingCall({ callArguments }: Internals): [Metadata, CallOptions] {
  return callArguments({ requiresLeader: true }, { deadline: Number.POSITIVE_INFINITY });
}
