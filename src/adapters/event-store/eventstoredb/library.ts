import { EventStoreDBClient } from '@eventstore/db-client';
import type { CallOptions, Channel, ClientDuplexStream, Metadata } from '@grpc/grpc-js';
import { leaveUnusedClosed } from './unused-connections.ts';

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
  createChannel(): Promise<Channel>;
  handleError(grpc: GrpcClient, error: Error): Promise<void>;
}

leaveUnusedClosed();

/**
 * Opens a client. After a failed call the library gives up its connection, or waits for the next
 * one if another call is looking for a node. It ignores the outcome, so a search without result
 * would end the process.
 */
export function openClient(url: string): EventStoreDBClient {
  const client = EventStoreDBClient.connectionString(url);
  const internals = internalsOf(client);
  const { createChannel, handleError } = internals;
  internals.handleError = (grpc, error) => handleError(grpc, error).catch(() => undefined);
  let channel: Channel | null = null;
  let isClosed = false;
  internals.createChannel = async () => {
    channel = await createChannel();
    if (isClosed) channel.close();
    return channel;
  };
  closers.set(client, () => {
    isClosed = true;
    channel?.close();
  });
  return client;
}

const closers = new WeakMap<EventStoreDBClient, () => void>();

/** Lets no call begin any more. Closes the connection when the calls under way have ended. */
export function closeConnection(client: EventStoreDBClient): void {
  closers.get(client)?.();
}

/** Ends all calls of a client, and closes its connection. */
export async function endClient(client: EventStoreDBClient): Promise<void> {
  closeConnection(client);
  await client.dispose();
}

export function internalsOf(client: EventStoreDBClient): Internals {
  return client as unknown as Internals;
}

/** Arguments of a call to the leader that lasts. */
export function lastingCall({ callArguments }: Internals): [Metadata, CallOptions] {
  return callArguments({ requiresLeader: true }, { deadline: Number.POSITIVE_INFINITY });
}
