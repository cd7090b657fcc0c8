import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createCertificates } from '../../network/certificates.ts';
import { freePort } from '../../network/free-port.ts';
import { debianPackages } from '../../programs/debian.ts';
import { accepts, startProcess } from '../../programs/server-process.ts';
import { TEST_PASSWORD } from '../password-hash.ts';

const PYTHON_MODULES = '/usr/lib/python3/dist-packages';
const SERVER = join(import.meta.dirname, 'pyftpdlib-server.py');
const USERNAME = 'waybill';

/** See `pyftpdlib-server.py`. */
export type PyftpdlibRule = 'no-mlsd' | 'dash-refused' | 'dash-empty';

export interface PyftpdlibServer {
  host: string;
  port: number;
  username: string;
  password: string;
  caPem: string;
  /** Temporary folder for files: the root of the server. */
  root: string;
  /** Returns how clients name the file that is `relative` to `root`. */
  remotePath(relative: string): string;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

const programs = () =>
  debianPackages(
    ['python3-pyftpdlib', 'python3-openssl'],
    [`${PYTHON_MODULES}/pyftpdlib/__init__.py`],
  );

/** Null if the server can run here, else the reason. */
export async function whyNoPyftpdlib(): Promise<string | null> {
  const found = await programs();
  return found.available ? null : found.reason;
}

/** Starts the server on loopback. Throws if `whyNoPyftpdlib` returns a reason. */
export async function startPyftpdlib(rules: PyftpdlibRule[] = []): Promise<PyftpdlibServer> {
  const found = await programs();
  if (!found.available) throw new Error(found.reason);
  const { path, env } = found;
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'waybill-pyftpdlib-')));
  const root = join(home, 'root');
  mkdirSync(root);
  const { caPem, valid } = await createCertificates();
  const certificate = join(home, 'certificate.pem');
  writeFileSync(certificate, valid.key + valid.cert, { mode: 0o600 });
  const python = existsSync('/usr/bin/python3') ? '/usr/bin/python3' : path('/usr/bin/python3');
  for (let attempt = 1; ; attempt++) {
    const port = await freePort();
    const server = startProcess(
      [python, SERVER, String(port), root, certificate, USERNAME, TEST_PASSWORD, ...rules],
      { env: { ...env, PYTHONPATH: path(PYTHON_MODULES) }, stdio: 'ignore' },
    );
    if (await server.ready(() => accepts(port)))
      return {
        host: '127.0.0.1',
        port,
        username: USERNAME,
        password: TEST_PASSWORD,
        caPem,
        root,
        remotePath: (relative) => join('/', relative),
        async stop() {
          await server.kill();
          rmSync(home, { recursive: true, force: true });
        },
      };
    if (attempt === 5) throw new Error('pyftpdlib does not start');
  }
}
