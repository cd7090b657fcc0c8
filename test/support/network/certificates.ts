import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { debianPackages } from '../programs/debian.ts';

/** A server's certificate and its private key, in PEM. */
export interface ServerCertificate {
  cert: string;
  key: string;
}

export interface TestCertificates {
  /** The authority that signed all certificates except `untrusted`. */
  caPem: string;
  /** For localhost and 127.0.0.1. */
  valid: ServerCertificate;
  /** Like `valid`, but it expired yesterday. */
  expired: ServerCertificate;
  /** For another.example only. */
  otherName: ServerCertificate;
  /** Like `valid`, but of an unknown authority. */
  untrusted: ServerCertificate;
}

const LOOPBACK = 'DNS:localhost,IP:127.0.0.1';

let created: Promise<TestCertificates> | undefined;

/**
 * Returns a temporary authority and certificates for servers on loopback, the same for all servers
 * of this process. Throws if openssl is missing.
 */
export function createCertificates(): Promise<TestCertificates> {
  created ??= create();
  return created;
}

async function create(): Promise<TestCertificates> {
  const openssl = await debianPackages(['openssl'], ['/usr/bin/openssl']);
  if (!openssl.available) throw new Error(openssl.reason);
  const { path, env } = openssl;
  const folder = mkdtempSync(join(tmpdir(), 'waybill-certificates-'));
  const read = (name: string): ServerCertificate => ({
    cert: readFileSync(join(folder, `${name}.pem`), 'utf8'),
    key: readFileSync(join(folder, `${name}.key`), 'utf8'),
  });
  const run = (...args: string[]) =>
    execFileSync(path('/usr/bin/openssl'), args, { cwd: folder, env, stdio: 'pipe' });
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

  const authority = (name: string) =>
    run(
      'req',
      '-x509',
      ...newKey,
      '-keyout',
      `${name}.key`,
      '-out',
      `${name}.pem`,
      '-days',
      '30',
      '-subj',
      `/CN=Waybill test ${name}`,
    );
  const sign = (name: string, ca: string, names: string, days = 30) => {
    const extensions = [
      '-addext',
      `subjectAltName=${names}`,
      '-addext',
      'basicConstraints=critical,CA:FALSE',
    ];
    run(
      'req',
      '-new',
      ...newKey,
      '-keyout',
      `${name}.key`,
      '-out',
      `${name}.csr`,
      '-subj',
      `/CN=${name}`,
      ...extensions,
    );
    const signer = ['-CA', `${ca}.pem`, '-CAkey', `${ca}.key`, '-copy_extensions', 'copyall'];
    run(
      'x509',
      '-req',
      '-in',
      `${name}.csr`,
      ...signer,
      '-days',
      String(days),
      '-out',
      `${name}.pem`,
    );
  };

  try {
    authority('ca');
    authority('unknown-ca');
    sign('valid', 'ca', LOOPBACK);
    sign('expired', 'ca', LOOPBACK, -1);
    sign('other-name', 'ca', 'DNS:another.example');
    sign('untrusted', 'unknown-ca', LOOPBACK);
    return {
      caPem: read('ca').cert,
      valid: read('valid'),
      expired: read('expired'),
      otherName: read('other-name'),
      untrusted: read('untrusted'),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
