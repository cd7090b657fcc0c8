import { GenericContainer, getContainerRuntimeClient, Wait } from 'testcontainers';
import { createEventStoreDb } from '../../../src/adapters/event-store/eventstoredb/log.ts';
import type { EventStore } from '../../../src/adapters/event-store/port.ts';
import { startTcpProxy } from '../../support/network/tcp-proxy.ts';
import { describeEventStore, type Engine } from './contract.ts';

const IMAGE = 'eventstore/eventstore:24.2.0-jammy';

type Server = { url: string; stop(): Promise<unknown> } | { absent: string };

/** The server of `EVENTSTORE_URL`, which must answer; otherwise a container, if Docker runs. */
async function findServer(): Promise<Server> {
  const url = process.env.EVENTSTORE_URL;
  if (url) return { url, stop: async () => undefined };
  try {
    await getContainerRuntimeClient();
    const container = await new GenericContainer(IMAGE)
      .withEnvironment({ EVENTSTORE_INSECURE: 'true', EVENTSTORE_MEM_DB: 'true' })
      .withExposedPorts(2113)
      .withWaitStrategy(Wait.forHttp('/health/live', 2113).forStatusCode(204))
      .start();
    return {
      url: `esdb://${container.getHost()}:${container.getMappedPort(2113)}?tls=false`,
      stop: () => container.stop(),
    };
  } catch (error) {
    return {
      absent: `no EVENTSTORE_URL, and no container of ${IMAGE}: ${(error as Error).message}`,
    };
  }
}

const server = await findServer();

async function startEngine(): Promise<Engine> {
  if ('absent' in server) throw new Error(server.absent);
  const stores: EventStore[] = [];
  // The client can reach only a single node without TLS by an address that is not its own.
  const single = /^esdb:\/\/([^@/?,:]+):(\d+)(\/?\?.*tls=false.*)$/i.exec(server.url);
  const proxy =
    single && (await startTcpProxy({ host: single[1] as string, port: Number(single[2]) }));
  const url = proxy ? `esdb://${proxy.host}:${proxy.port}${single[3]}` : server.url;
  return {
    async open(prefix) {
      const store = createEventStoreDb({ url, prefix });
      stores.push(store);
      return store;
    },
    ...(proxy && { drop: async () => proxy.cut() }),
    async close() {
      await Promise.all(stores.map((store) => store.close()));
      await proxy?.close();
      await server.stop();
    },
  };
}

describeEventStore('a real EventStoreDB', startEngine, 'absent' in server ? server.absent : null);
