import type { EventStoreDBClient } from '@eventstore/db-client';
import type { ClientDuplexStream, ClientReadableStream } from '@grpc/grpc-js';

/** A private part of the library: a client of gRPC, without the messages of the library. */
interface GrpcClient {
  makeBidiStreamRequest<Answer>(
    path: string,
    serialize: (message: Buffer) => Buffer,
    deserialize: (message: Buffer) => Answer,
    ...callArguments: unknown[]
  ): ClientDuplexStream<Buffer, Answer>;
  makeServerStreamRequest<Answer>(
    path: string,
    serialize: (message: Buffer) => Buffer,
    deserialize: (message: Buffer) => Answer,
    request: Buffer,
    ...callArguments: unknown[]
  ): ClientReadableStream<Answer>;
}

/** Private parts of the library: they find the server, sign in, and end calls with their client. */
export interface Internals {
  GRPCStreamCreator<Call>(
    service: unknown,
    name: string,
    create: (grpc: GrpcClient) => Call,
  ): () => Promise<Call>;
  callArguments(options: { requiresLeader: boolean }, call: { deadline: number }): unknown[];
}

export function internalsOf(client: EventStoreDBClient): Internals {
  return client as unknown as Internals;
}

/** Arguments of a call to the leader that lasts. */
export function lastingCall({ callArguments }: Internals): unknown[] {
  return callArguments({ requiresLeader: true }, { deadline: Number.POSITIVE_INFINITY });
}
