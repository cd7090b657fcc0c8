/** Webhooks may not go to this address. */
export class RefusedAddress extends Error {
  override readonly name = 'RefusedAddress';
  readonly address: string;

  constructor(address: string) {
    super(`${address} is not allowed for webhooks`);
    this.address = address;
  }
}

const CERTIFICATES: Record<string, string> = {
  CERT_HAS_EXPIRED: 'has expired: renew it',
  CERT_NOT_YET_VALID: 'is not valid yet: check the clock of the server that issued it',
  ERR_TLS_CERT_ALTNAME_INVALID:
    'is for another name: use a certificate that names the host of the URL',
};
const UNKNOWN_AUTHORITY = /^(DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|CERT_|INVALID_CA)/;

/** Explains to the receiver's owner why a request got no answer. */
export function explainFailure(error: unknown, url: string): string {
  const { host, hostname } = new URL(url);
  if (error instanceof RefusedAddress) return unreachable(hostname);
  const code = codeOf(error);
  const certificate = CERTIFICATES[code];
  if (certificate) return `the certificate of ${host} ${certificate} (${code})`;
  if (UNKNOWN_AUTHORITY.test(code)) {
    return (
      `the certificate of ${host} is not signed by a known authority: ` +
      `use a certificate of a public authority, and send its intermediates (${code})`
    );
  }
  if (/^(ERR_SSL_|ERR_TLS_|EPROTO)/.test(code))
    return (
      `${host} does not speak TLS 1.2 or later: ` +
      `check the port and the scheme of the URL (${code})`
    );
  switch (code) {
    case 'ENOTFOUND':
    case 'ENODATA':
    case 'EBADNAME':
      return unreachable(hostname);
    case 'EAI_AGAIN':
    case 'ESERVFAIL':
    case 'EREFUSED':
    case 'ETIMEOUT':
      return `the look-up of ${hostname} failed: check the DNS of its domain`;
    case 'ECONNREFUSED':
      return `nothing listens at ${host}: check that the receiver runs, and the port in the URL`;
    case 'ECONNRESET':
    case 'EPIPE':
    case 'UND_ERR_SOCKET':
      return (
        `${host} closed the connection without an answer: ` +
        'look for the cause in the log of the receiver'
      );
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
    case 'ETIMEDOUT':
    case 'UND_ERR_CONNECT_TIMEOUT':
      return (
        `${host} can't be reached: ` +
        'check that the receiver runs and that no firewall blocks the connection'
      );
    default:
      return code.startsWith('HPE_')
        ? `${host} does not answer with HTTP: check the port in the URL (${code})`
        : `no answer from ${host} (${code || (error as Error).message})`;
  }
}

/**
 * Says the same of a name without an address and of a forbidden address. Otherwise, owners of
 * webhooks could ask the internal DNS for the names and addresses that it has.
 */
function unreachable(hostname: string): string {
  return (
    `${hostname} has no address that webhooks may reach: check the name in the URL, and use a ` +
    'public https address, or have the operator allow its range (WAYBILL_WEBHOOK_ALLOW_CIDRS)'
  );
}

/** Returns the code of an error; if several addresses were tried, that of the first one. */
function codeOf(error: unknown): string {
  const { code, errors } = error as { code?: unknown; errors?: unknown[] };
  if (typeof code === 'string') return code;
  return errors?.length ? codeOf(errors[0]) : '';
}
