import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import {
  createFtpsEndpoint,
  type FtpsEndpointOptions,
} from '../../../../src/adapters/files/ftps/endpoint.ts';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import {
  type Script,
  type ScriptedFtpsServer,
  type ScriptedSession,
  startScriptedFtpsServer,
} from '../../../support/file-servers/ftps/scripted-server.ts';
import { download, options, upload, whole, writeFrom } from '../contract.ts';

const never = new AbortController().signal;
const content = randomBytes(300_000);
/** Each command must be answered within it, also on a busy machine. */
const STALL_MS = 2_000;
let server: ScriptedFtpsServer;
let endpoint: FileEndpoint;

afterEach(async () => {
  await endpoint?.close();
  await server?.stop();
});

async function endpointOn(
  script: Script,
  timeouts: FtpsEndpointOptions['timeouts'] = {},
): Promise<FileEndpoint> {
  server = await startScriptedFtpsServer(script);
  const { host, port, caPem } = server;
  endpoint = createFtpsEndpoint({
    settings: {
      protocol: 'ftps',
      host,
      port,
      base_path: '/',
      username: 'someone',
      tls: 'explicit',
      ca_pem: caPem,
    },
    credentials: { password: 'a password' },
    maxConnections: 2,
    timeouts,
  });
  return endpoint;
}

/** Sends `bytes` of the content, then answers `reply`. */
const giving =
  (bytes: number, reply: string | null) =>
  async (_path: string, { data, say }: ScriptedSession) => {
    say('150 Here it comes');
    const socket = await data();
    socket.write(content.subarray(0, bytes));
    if (reply !== null) socket.end();
    return reply;
  };

/** Receives a file to its end, then answers `reply`. */
const taking =
  (reply: string) =>
  async (_path: string, { data, say }: ScriptedSession) => {
    say('150 Go ahead');
    const socket = await data();
    for await (const _ of socket);
    return reply;
  };

/** Answers `reply` before the TLS handshake of the data connection, which never begins. */
const overtaking =
  (reply: string) =>
  (_path: string, { say }: ScriptedSession) => {
    say('150 Here it comes');
    return reply;
  };

const SIZE = () => `213 ${content.length}`;

test('a PASV answer with another address leads to the server itself', async () => {
  const over = await endpointOn({
    SIZE,
    EPSV: () => '500 What?',
    RETR: giving(content.length, '226 Done'),
  });
  expect(content.equals(await download(over, '/file'))).toBe(true);
  expect(server.commands.filter((command) => command === 'EPSV')).toHaveLength(1);
});

describe('a source does not count as complete', () => {
  test.each([
    [
      'with all bytes but an error from the server',
      content.length,
      '451 Disk error',
      'connection_failed',
    ],
    ['with missing bytes', 1000, '226 Done', 'source_changed'],
    ['after an abort', 1000, '426 Aborted', 'connection_failed'],
    ['that stalls', 1000, null, 'stalled'],
  ])('%s', async (_name, bytes, reply, code) => {
    const over = await endpointOn({ SIZE, RETR: giving(bytes, reply) }, { stallMs: STALL_MS });
    await expect(download(over, '/file')).rejects.toMatchObject({ code, step: 'transfer' });
  });

  test.each([0, 1000])('after an abort before its first byte, from %d', async (offset) => {
    const over = await endpointOn({
      SIZE,
      REST: () => '350 From there',
      RETR: overtaking('426 Aborted'),
    });
    const file = await over.openSource('/file', never);
    await expect(file.read(offset, Buffer.alloc(1000))).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'transfer',
    });
    await file.close();
    // It did not refuse the offset.
    expect(server.commands.filter((command) => command.startsWith('RETR'))).toHaveLength(1);
  });

  test('if it is longer than before', async () => {
    const over = await endpointOn({ SIZE: () => '213 1000', RETR: giving(1001, '226 Done') });
    await expect(download(over, '/file')).rejects.toMatchObject({ code: 'source_changed' });
  });
});

test('a source that could not be read leaves the connection to the next file', async () => {
  const rest = Promise.withResolvers<void>();
  const over = await endpointOn({
    SIZE,
    async RETR(path, { data, say }) {
      if (path === '/locked') return '550 Permission denied';
      say('150 Here it comes');
      const socket = await data();
      socket.write(content.subarray(0, 1000));
      await rest.promise;
      socket.end(content.subarray(1000));
      return '226 Done';
    },
  });
  const locked = await over.openSource('/locked', never);
  await expect(locked.read(0, Buffer.alloc(1000))).rejects.toMatchObject({
    code: 'permission_denied',
  });
  const file = await over.openSource('/file', never);
  const target = Buffer.alloc(content.length);
  await file.read(0, target.subarray(0, 1000));
  await locked.close();
  await over.openSource('/other', never);
  rest.resolve();
  await file.read(1000, target.subarray(1000));
  await file.close();
  expect(target.equals(content)).toBe(true);
  expect(server.commands.filter((command) => command.startsWith('USER'))).toHaveLength(2);
});

test('a source counts as complete if the answer overtakes the file', async () => {
  const over = await endpointOn({
    SIZE,
    RETR: giving(content.length, '226 Done'),
    async LIST(_path, { data, say }) {
      say('150 Here it comes');
      say('226 Done');
      await sleep(50);
      (await data()).end('-rw-r--r-- 1 me me 5 Jan 1 2026 file\r\n');
      return null;
    },
  });
  expect(content.equals(await download(over, '/file'))).toBe(true);
  expect(await over.list('/', never)).toMatchObject([{ name: 'file', size: 5 }]);
  // It does not mean that the TLS session has expired.
  expect(server.commands.filter((command) => command.startsWith('PASS'))).toHaveLength(1);
});

describe('the error of a missing file, from a server that reports only an unreadable path', () => {
  test.each([
    [
      'Pure-FTPd',
      "550 Can't check for file existence",
      "550 Can't change directory to /file: No such file or directory",
      'source_not_found',
    ],
    [
      'Pure-FTPd, in a closed folder',
      "550 Can't check for file existence",
      "550 Can't change directory: Permission denied",
      'permission_denied',
    ],
    [
      'FileZilla Server',
      "550 Couldn't open the file or directory",
      "550 Couldn't open the directory",
      'source_not_found',
    ],
  ])('%s', async (_name, size, folder, code) => {
    const over = await endpointOn({ SIZE: () => size, CWD: () => folder });
    await expect(over.openSource('/file', never)).rejects.toMatchObject({ code, step: 'open' });
  });

  test('a source that is gone at the second look has changed', async () => {
    let gone = false;
    const over = await endpointOn({
      SIZE: () => (gone ? "550 Can't check for file existence" : SIZE()),
      CWD: () => "550 Can't change directory",
      RETR: giving(content.length, '226 Done'),
    });
    const file = await over.openSource('/file', never);
    gone = true;
    await expect(file.stat()).rejects.toMatchObject({ code: 'source_changed', step: 'verify' });
    await file.close();
  });
});
describe('a destination does not count as complete', () => {
  test.each([
    ['on a full disk', '452 No space left', content.length, 'disk_full'],
    ['if the server lost its end', '226 Done', content.length - 1, 'size_mismatch'],
  ])('%s', async (_name, reply, size, code) => {
    const over = await endpointOn({ STOR: taking(reply), SIZE: () => `213 ${size}` });
    const file = await over.openDestination('/file', options(content.length));
    await file.write(0, content);
    await expect(file.commit(whole(content))).rejects.toMatchObject({ code, step: 'commit' });
    await file.close();
    expect(server.commands.join()).not.toContain('RNTO');
  });
});

test('a destination that breaks off before its first byte is not created again', async () => {
  const over = await endpointOn({
    STOR: overtaking('452 No space left'),
    SIZE: (path) => (path.endsWith('.part') ? `213 ${4 << 20}` : '550 No such file'),
    CWD: () => '550 No such folder',
    REST: () => '350 From there',
  });
  const resume = { bytes: 4 << 20, state: { part: '.file.part' } };
  const file = await over.openDestination('/file', options(5 << 20, { resume }));
  await expect(file.write(4 << 20, Buffer.alloc(1 << 20))).rejects.toMatchObject({
    code: 'disk_full',
    step: 'transfer',
  });
  await file.close();
  expect(server.commands.filter((command) => command.startsWith('STOR'))).toHaveLength(1);
});

test('a destination that accepts no more bytes is a stall', async () => {
  const over = await endpointOn(
    {
      async STOR(_path, { data, say }) {
        say('150 Go ahead');
        await data();
        return null;
      },
    },
    { stallMs: STALL_MS },
  );
  const size = 64 << 20;
  const file = await over.openDestination('/file', options(size));
  await expect(file.write(0, Buffer.alloc(size))).rejects.toMatchObject({
    code: 'stalled',
    step: 'transfer',
  });
  await file.close();
});

test('a listing that breaks off does not count as complete', async () => {
  const over = await endpointOn({ LIST: giving(0, '426 Aborted') });
  await expect(over.list('/', never)).rejects.toMatchObject({ code: 'connection_failed' });
});

describe('a clean-up in a folder that is too long for a listing', () => {
  const [recorded, forgotten] = ['.file.txr_1.clm_1.part', '.file.txr_1.clm_2.part'];
  /** 1 MB of names, the last one cut by the next piece. */
  const others = `${'-rw-r--r-- 1 a a 5 Jan 1 00:00 other\r\n'.repeat(25_000)}-rw-r--r-- 1 a a`;
  const pieces = 70;

  async function removeOn(last: string): Promise<string[]> {
    const at = await endpointOn({
      LIST: async (_, { data, say }) => {
        say('150 Here it comes');
        const socket = await data();
        for (let piece = 0; piece < pieces; piece++) {
          if (!socket.write(others)) await once(socket, 'drain');
          socket.write(' 5 Jan 1 00:00 another\r\n');
        }
        socket.end(last);
        return '226 Done';
      },
      DELE: () => '250 Gone',
      SIZE: () => '550 No such file',
      CWD: (path) => (path === '/' ? '250 There' : '550 No such folder'),
    });
    const resume = { bytes: 1, state: { part: recorded } };
    await at.removeLeftovers('/file', { transferId: 'txr_1', resume, signal: never });
    return server.commands.filter((command) => command.startsWith('DELE'));
  }

  test.each([
    ['at the end of a line', '\r\n'],
    ['at the end of the listing', ''],
  ])('finds a part %s', async (_name, end) => {
    expect(await removeOn(`-rw-r--r-- 1 a a 5 Jan 1 00:00 ${forgotten}${end}`)).toEqual([
      `DELE /${recorded}`,
      `DELE /${forgotten}`,
    ]);
  });
});

test('an entry with an odd time is listed without a time, and hides no other', async () => {
  const lines = [
    'type=file;size=1;modify=20260102030405.123; whole',
    'type=file;size=2;modify=2026-01-02; dashes; modify=2026-01-02;',
    'modify=UNKNOWN;type=file;size=3; unknown',
    'type=file;size=4;modify=; empty',
  ];
  const over = await endpointOn({
    FEAT: () => '211-Features:\r\n MLST type*;size*;modify*;\r\n211 End',
    MLSD: async (_, { data, say }) => {
      say('150 Here it comes');
      (await data()).end(`${lines.join('\r\n')}\r\n`);
      return '226 Done';
    },
  });
  const listed = await over.list('/', never);
  expect(listed.map(({ name, size, modified_at }) => [name, size, modified_at])).toEqual([
    ['whole', 1, '2026-01-02T03:04:05.123Z'],
    ['dashes; modify=2026-01-02;', 2, null],
    ['unknown', 3, null],
    ['empty', 4, null],
  ]);
});

describe('on a server that does not rename over a file', () => {
  /**
   * Returns a folder with an older file on such a server. The server answers `reply` to commands
   * that match `refused`, the given number of times.
   */
  function folder(
    refused = /^$/,
    reply = '550 No',
    times = Number.POSITIVE_INFINITY,
  ): { files: Map<string, string>; script: Script } {
    const files = new Map([['/file', 'old']]);
    const missing = '550 No such file';
    let from = '';
    const refusal = (what: string) => (refused.test(what) && times-- > 0 ? reply : null);
    const script: Script = {
      SIZE: (path) => (files.has(path) ? SIZE() : missing),
      CWD: () => missing,
      STOR(path, session) {
        files.set(path, 'new');
        return taking('226 Done')(path, session);
      },
      RNFR(path) {
        from = path;
        return files.has(path) ? '350 To what?' : missing;
      },
      RNTO(to) {
        const no = files.has(to) ? '553 It exists' : refusal(`RNTO ${from} ${to}`);
        if (no) return no;
        files.set(to, files.get(from) as string);
        files.delete(from);
        return '250 Renamed';
      },
      DELE: (path) => refusal(`DELE ${path}`) ?? (files.delete(path) ? '250 Gone' : missing),
    };
    return { files, script };
  }

  test('a commit sets the older file aside, and reports that this is not atomic', async () => {
    const { files, script } = folder();
    expect(await upload(await endpointOn(script), '/file', content)).toMatchObject({
      size: content.length,
      atomicReplace: false,
    });
    expect(Object.fromEntries(files)).toEqual({ '/file': 'new' });
  });

  async function written(script: Script) {
    const over = await endpointOn(script);
    const opening = options(content.length);
    const file = await over.openDestination('/file', opening);
    await file.write(0, content);
    const resume = await file.resumePoint(content.length);
    const { transferId } = opening;
    const cleanUp = () => over.removeLeftovers('/file', { transferId, resume, signal: never });
    return { over, file, transferId, resume, cleanUp };
  }

  test('a stale claim whose successor publishes during its commit takes nothing away', async () => {
    const { files, script } = folder();
    const { file } = await written({
      ...script,
      RNFR(path, session) {
        if (files.delete(path)) files.set('/file', 'new');
        return script.RNFR?.(path, session) ?? null;
      },
    });
    await expect(file.commit(whole(content))).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'commit',
    });
    await file.close();
    expect(server.commands.filter((command) => command.startsWith('RNTO'))).toEqual([]);
    expect(Object.fromEntries(files)).toEqual({ '/file': 'new' });
  });

  test.each([
    ['it may not be renamed', /^RNTO \/file /],
    ['the newer file does not get its name', /part \/file$/],
    ['it may not be removed', /^DELE .*old$/],
  ])('the older file stays if %s', async (_name, refused) => {
    const { files, script } = folder(refused);
    const { file, cleanUp } = await written(script);
    await expect(file.commit(whole(content))).rejects.toMatchObject({
      code: 'permission_denied',
      step: 'commit',
    });
    await file.close();
    expect([...files.values()].sort()).toEqual(['new', 'old']);
    await cleanUp();
    expect(Object.fromEntries(files)).toEqual({ '/file': 'old' });
  });

  test('the older file that may not be removed stays away if a consumer took the newer one', async () => {
    const { files, script } = folder();
    const { file } = await written({
      ...script,
      DELE(path) {
        if (path.endsWith('.old')) files.delete('/file');
        return '550 No';
      },
    });
    await expect(file.commit(whole(content))).rejects.toMatchObject({ code: 'permission_denied' });
    await file.close();
    expect([...files]).toEqual([[expect.stringMatching(/\.old$/), 'old']]);
  });

  test.each([
    ['goes back if the commit broke off before the newer file had its name', /part \/file$/, 'old'],
    ['is removed if the commit broke off after that', /^DELE .*old$/, 'new'],
  ])('clean-up finds the file that was set aside: it %s', async (_name, refused, left) => {
    const { files, script } = folder(refused, '421 Going down', 1);
    const { file, cleanUp } = await written(script);
    await expect(file.commit(whole(content))).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'commit',
    });
    await file.close();
    expect([...files.values()]).toContain('old');
    await cleanUp();
    expect(Object.fromEntries(files)).toEqual({ '/file': left });
  });

  test('a successor finds the older file in its place', async () => {
    const { files, script } = folder(/part \/file$/, '421 Going down', 1);
    const { over, file, transferId, resume } = await written(script);
    await expect(file.commit(whole(content))).rejects.toMatchObject({ code: 'connection_failed' });
    await file.close();
    expect(files.has('/file')).toBe(false);
    const second = await over.openDestination(
      '/file',
      options(content.length, { transferId, resume }),
    );
    expect(files.get('/file')).toBe('old');
    expect(second.resumedFrom).toBe(content.length);
    expect(await second.commit(whole(content))).toMatchObject({ atomicReplace: false });
    await second.close();
    expect(Object.fromEntries(files)).toEqual({ '/file': 'new' });
  });
});

describe('a server that rejects data connections', () => {
  const REPLIES = [
    '522 SSL connection failed; session reuse required: see require_ssl_reuse option',
    '425 Unable to build data connection: TLS session of data connection not resumed.',
    '450 TLS session of data connection has not resumed',
  ];

  /** Lists an empty folder. */
  async function listing(_option: string, { data, say }: ScriptedSession): Promise<string> {
    say('150 Here it comes');
    const socket = await data();
    socket.end('drwxr-xr-x 2 a a 4096 Jan  1 00:00 .\r\n');
    return '226 Done';
  }

  /**
   * Answers `reply` to every command after the first listing of a connection, like an expired
   * session.
   */
  function refusingAfterFirst(reply: string): Script {
    const listed = new Set<ScriptedSession>();
    const refused = (session: ScriptedSession) => listed.has(session);
    return {
      SIZE,
      LIST: (path, session) => {
        if (refused(session)) return reply;
        listed.add(session);
        return listing(path, session);
      },
      RETR: (path, session) =>
        refused(session) ? reply : giving(content.length, '226 Done')(path, session),
      STOR: (path, session) => (refused(session) ? reply : taking('226 Done')(path, session)),
    };
  }

  test.each(REPLIES)('on an old connection gets a new connection: %s', async (reply) => {
    const over = await endpointOn(refusingAfterFirst(reply));
    await over.list('/', never);
    await over.list('/', never);
    expect(content.equals(await download(over, '/file'))).toBe(true);
    await over.list('/', never);
    await upload(over, '/file', content);
    expect(server.commands.filter((command) => command.startsWith('PASS'))).toHaveLength(4);
  });

  test('on an old connection at the end of an upload gets another attempt', async () => {
    const over = await endpointOn({
      ...refusingAfterFirst(''),
      STOR: taking(REPLIES[0] as string),
    });
    await over.list('/', never);
    await expect(upload(over, '/file', content)).rejects.toMatchObject({
      code: 'connection_failed',
    });
  });

  test('on a new connection too gets one more sign-in, then the read fails', async () => {
    const over = await endpointOn({ SIZE, LIST: () => REPLIES[0] as string });
    await expect(over.list('/', never)).rejects.toMatchObject({ code: 'tls_error' });
    expect(server.commands.filter((command) => command.startsWith('PASS'))).toHaveLength(2);
  });
});

test('an upload appends on a server without other ways to resume', async () => {
  const over = await endpointOn({
    FEAT: () => '211-Features:\r\n SIZE\r\n211 End',
    SIZE: (path) => (path.endsWith('.part') ? `213 ${4 << 20}` : '550 No such file'),
    CWD: () => '550 No such folder',
    APPE: taking('226 Done'),
  });
  const resume = { bytes: 4 << 20, state: { part: '.file.part' } };
  const file = await over.openDestination('/file', options(5 << 20, { resume }));
  expect(file.resumedFrom).toBe(4 << 20);
  await file.close();
});

test('an upload starts over if the server does not let its part be renamed', async () => {
  const over = await endpointOn({
    RNTO: () => '553 The file is in use',
    SIZE: () => '550 No such file',
    CWD: () => '550 No such folder',
    STOR: taking('226 Done'),
  });
  const resume = { bytes: 4 << 20, state: { part: '.file.part' } };
  const file = await over.openDestination('/file', options(5 << 20, { resume }));
  expect(file.resumedFrom).toBe(0);
  await file.close();
});

test('an upload starts over on a server that continued it wrongly', async () => {
  const files = new Map<string, number>();
  const size = 12 << 20;
  let from = '';
  const over = await endpointOn({
    // It means the RETR that it expects next.
    REST: () => '350 From there',
    async STOR(path, { data, say }) {
      say('150 Go ahead');
      const socket = await data();
      files.set(path, 0);
      for await (const piece of socket)
        files.set(path, (files.get(path) ?? 0) + (piece as Buffer).length);
      return '226 Done';
    },
    SIZE: (path) => (files.has(path) ? `213 ${files.get(path)}` : '550 No such file'),
    CWD: () => '550 No such folder',
    DELE: (path) => (files.delete(path) ? '250 Gone' : '550 No such file'),
    RNFR(path) {
      from = path;
      return files.has(path) ? '350 To what?' : '550 No such file';
    },
    RNTO(path) {
      files.set(path, files.get(from) as number);
      files.delete(from);
      return '250 Renamed';
    },
  });
  const bytes = randomBytes(size);
  const given = options(size);
  const first = await over.openDestination('/file', given);
  await first.write(0, bytes.subarray(0, 4 << 20));
  const resume = await first.resumePoint(4 << 20);
  await first.close();

  const second = await over.openDestination('/file', { ...given, resume });
  expect(second.resumedFrom).toBe(4 << 20);
  await writeFrom(second, bytes);
  await expect(second.commit(whole(bytes))).rejects.toMatchObject({ code: 'size_mismatch' });
  const after = await second.resumePoint(size);
  await second.close();

  const third = await over.openDestination('/file', { ...given, resume: after });
  expect(third.resumedFrom).toBe(0);
  await writeFrom(third, bytes);
  expect(await third.commit(whole(bytes))).toMatchObject({ size });
  await third.close();
  expect(Object.fromEntries(files)).toEqual({ '/file': size });
});

describe('a session ends', () => {
  test.each([
    [
      'without TLS for commands',
      { AUTH: () => '502 Not here' },
      'tls_error',
      'connect',
      /USER|PASS/,
    ],
    ['without TLS for files', { PROT: () => '536 Not here' }, 'tls_error', 'sign_in', /CWD/],
    [
      'when too many users are signed in',
      { PASS: () => '530 Sorry, the maximum number of clients are connected' },
      'connection_failed',
      'sign_in',
      /CWD/,
    ],
    ['when the account is rejected', { USER: () => '530 Who?' }, 'auth_failed', 'sign_in', /PASS/],
  ])('%s', async (_name, script: Script, code, step, neverSent) => {
    // A refused connection waits for another one to end, a minute by default.
    const over = await endpointOn(script, { queueMs: 500 });
    await expect(over.list('/', never)).rejects.toMatchObject({ code, step });
    expect(server.commands.join('\n')).not.toMatch(neverSent);
    expect(await over.connections()).toBe(0);
  });

  test('when the server is about to close the connection', async () => {
    const over = await endpointOn({ SIZE: () => '421 Going down' });
    await expect(over.openSource('/file', never)).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'open',
    });
    expect(await over.connections()).toBe(0);
  });
});
