import type { EventStoreDBClient } from '@eventstore/db-client';
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
}

export function internalsOf(client: EventStoreDBClient): Internals {
  return client as unknown as Internals;
}

/** Arguments of a call to the leader that lasts. */
export function lastingCall({ callArguments }: Internals): [Metadata, CallOptions] {
  return callArguments({ requiresLeader: true }, { deadline: Number.POSITIVE_INFINITY });
}
