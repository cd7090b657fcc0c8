import { randomInt } from 'node:crypto';
import { FIRST_PASSIVE_PORT, isInUse, LAST_PASSIVE_PORT } from '../network/free-port.ts';
import { startTcpProxy, type TcpProxy } from '../network/tcp-proxy.ts';
import {
  ENDPOINT_KINDS,
  type EndpointName,
  type EndpointOptions,
  type TestEndpoint,
} from './endpoints.ts';

export interface ProxiedEndpoint extends TestEndpoint {
  /** Carries all traffic between the service and the endpoint, including FTPS data connections. */
  proxy: TcpProxy;
}

/** How many FTPS data connections may be open at once, including those that have just ended. */
const PASSIVE_PORTS = 64;

/**
 * Starts an endpoint that is configured with its proxy's address. A test accesses its files
 * directly.
 */
export async function startBehindProxy(
  name: EndpointName,
  options: EndpointOptions = {},
): Promise<ProxiedEndpoint> {
  for (let attempt = 1; ; attempt++) {
    const passive = name === 'ftps' ? passivePorts() : undefined;
    const endpoint = await ENDPOINT_KINDS[name].start({
      ...options,
      ...(passive ? { passive } : {}),
    });
    try {
      return await putBehindProxy(endpoint, passive?.ports);
    } catch (error) {
      await endpoint.stop();
      if (!isInUse(error) || attempt === 5) throw error;
    }
  }
}

/**
 * Ports for an FTPS server behind a proxy. Server and proxy use the same ports, at different
 * loopback addresses.
 */
export function passivePorts(): { host: string; ports: readonly number[] } {
  const first = randomInt(FIRST_PASSIVE_PORT, LAST_PASSIVE_PORT - PASSIVE_PORTS);
  const host = `127.${randomInt(1, 255)}.${randomInt(256)}.${randomInt(1, 255)}`;
  return { host, ports: Array.from({ length: PASSIVE_PORTS }, (_, i) => first + i) };
}

async function putBehindProxy(
  endpoint: TestEndpoint,
  morePorts?: readonly number[],
): Promise<ProxiedEndpoint> {
  const { host, port, endpoint_url } = endpoint.request as {
    host: string;
    port: number;
    endpoint_url?: string;
  };
  const url = endpoint_url === undefined ? null : new URL(endpoint_url);
  const proxy = await startTcpProxy(
    url ? { host: url.hostname, port: Number(url.port) } : { host, port },
    morePorts,
  );
  if (url) url.port = String(proxy.port);
  const address = url ? { endpoint_url: url.href } : { host: proxy.host, port: proxy.port };
  return {
    ...endpoint,
    request: { ...endpoint.request, ...address },
    proxy,
    async stop() {
      await proxy.close();
      await endpoint.stop();
    },
  };
}
