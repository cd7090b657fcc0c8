import { startTcpProxy } from '../../test/support/network/tcp-proxy.ts';

// A proxy in a process of its own, so it shares no thread with the measured processes. Arguments:
// address and port of the server, milliseconds of a round trip, more ports of the server. It prints
// its port.
const [host = '', ...numbers] = process.argv.slice(2);
const [port, roundTripMs, ...morePorts] = numbers.map(Number) as [number, number, ...number[]];
const proxy = await startTcpProxy({ host, port }, morePorts);
proxy.delay(roundTripMs);
console.log(proxy.port);
