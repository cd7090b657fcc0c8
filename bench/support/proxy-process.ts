import { startTcpProxy } from '../../test/support/tcp-proxy.ts';

// A proxy in a process of its own, so that it shares no thread with what is measured. Arguments: port of
// the server, milliseconds of the round trip. Writes its own port.
const [port, roundTripMs] = process.argv.slice(2).map(Number) as [number, number];
const proxy = await startTcpProxy({ host: '127.0.0.1', port });
proxy.delay(roundTripMs);
console.log(proxy.port);
