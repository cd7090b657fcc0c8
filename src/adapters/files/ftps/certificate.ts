import { once } from 'node:events';
import { isIP, type Socket } from 'node:net';
import {
  type ConnectionOptions,
  connect,
  createSecureContext,
  getCACertificates,
  type TLSSocket,
} from 'node:tls';
import type { FtpsSettings } from '../../../domain/protocols/ftps.ts';
import { explainCertificateTime } from '../system-error.ts';

/**
 * Returns the TLS options of every connection to an endpoint: TLS 1.2 or 1.3, with the endpoint's
 * own CA if it has one, else with those of Node.js and the system. Call it once per endpoint:
 * reading hundreds of authorities takes 40 ms.
 */
export function tlsOptions({ host, ca_pem }: FtpsSettings): ConnectionOptions {
  const ca = ca_pem ?? [
    ...new Set([...getCACertificates('default'), ...getCACertificates('system')]),
  ];
  const name = isIP(host) ? {} : { servername: host };
  return { host, ...name, secureContext: createSecureContext({ ca, minVersion: 'TLSv1.2' }) };
}

/** Starts TLS on a connected socket. It does not verify the certificate: call `distrust` next. */
export async function startTls(socket: Socket, tls: ConnectionOptions): Promise<TLSSocket> {
  const secured = connect({ ...tls, socket, rejectUnauthorized: false });
  await once(secured, 'secureConnect');
  return secured;
}

/**
 * Returns null if the certificate is valid; else the reason, and which certificate was presented.
 */
export function distrust(socket: TLSSocket, host: string): string | null {
  if (socket.authorized) return null;
  const code = String(socket.authorizationError);
  const { subject, subjectaltname, issuer, valid_from, valid_to, fingerprint256 } =
    socket.getPeerCertificate();
  const presented =
    `${subject?.CN ?? 'no name'} (${subjectaltname ?? 'no other names'}), signed by ` +
    `${issuer?.CN ?? 'an unnamed authority'}, valid from ${valid_from} to ${valid_to}, SHA-256 ` +
    `${fingerprint256}`;
  return (
    `The certificate of ${host} is not trusted: it ${faultOf(code)} (${code}). ` +
    `Presented was ${presented}`
  );
}

function faultOf(code: string): string {
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return 'is for another name';
  return explainCertificateTime(code) ?? 'is signed by no known authority';
}
