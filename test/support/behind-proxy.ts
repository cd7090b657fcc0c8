import { randomInt } from 'node:crypto';
import { ENDPOINT_KINDS, type EndpointName, type EndpointOptions, type TestEndpoint } from './endpoints.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

export interface ProxiedEndpoint extends TestEndpoint {
  /** All that the service says to the endpoint goes through it, the data connections of FTPS too. */
  proxy: TcpProxy;
}

/** Data connections of FTPS that may stand at once, with those that have just ended. */
const PASSIVE_PORTS = 64;
// Below those that systems give to whoever asks for any.
const [FIRST_PORT, LAST_PORT] = [10_000, 32_000];

/** Starts an endpoint that is configured to be reached through a proxy; what a test does with its files goes past it. */
export async function startBehindProxy(name: EndpointName, options: EndpointOptions = {}): Promise<ProxiedEndpoint> {
  for (let attempt = 1; ; attempt++) {
    const passive = name === 'ftps' ? passivePorts() : undefined;
    const endpoint = await ENDPOINT_KINDS[name].start({ ...options, ...(passive ? { passive } : {}) });
    try {
      return await putBehindProxy(endpoint, passive?.ports);
    } catch (error) {
      await endpoint.stop();
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || attempt === 5) throw error;
    }
  }
}

/** For a server of FTPS behind a proxy: ports that the server and the proxy have both, at different addresses of loopback. */
export function passivePorts(): { host: string; ports: readonly number[] } {
  const first = randomInt(FIRST_PORT, LAST_PORT - PASSIVE_PORTS);
  const host = `127.${randomInt(1, 255)}.${randomInt(256)}.${randomInt(1, 255)}`;
  return { host, ports: Array.from({ length: PASSIVE_PORTS }, (_, i) => first + i) };
}

async function putBehindProxy(endpoint: TestEndpoint, morePorts?: readonly number[]): Promise<ProxiedEndpoint> {
  const { host, port, endpoint_url } = endpoint.request as { host: string; port: number; endpoint_url?: string };
  const url = endpoint_url === undefined ? null : new URL(endpoint_url);
  const proxy = await startTcpProxy(url ? { host: url.hostname, port: Number(url.port) } : { host, port }, morePorts);
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
