import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createSecureContext, TLSSocket } from 'node:tls';
import { createCertificates } from '../../network/certificates.ts';

export interface ScriptedSession {
  /**
   * The data connection that the last EPSV or PASV requested, under TLS. The handshake begins with
   * this call.
   */
  data(): Promise<TLSSocket>;
  /** Sends a line at once, before the one that the script returns. */
  say(line: string): void;
}

/** Answers to commands, by their names; null for no answer. */
export type Script = Record<
  string,
  (argument: string, session: ScriptedSession) => string | null | Promise<string | null>
>;

export interface ScriptedFtpsServer {
  host: string;
  port: number;
  caPem: string;
  /** Lines that clients sent, over all connections. */
  commands: string[];
  stop(): Promise<void>;
}

const MANNERS: Script = {
  AUTH: () => '234 Go ahead',
  USER: () => '331 Password, please',
  PASS: () => '230 Welcome',
  FEAT: () => '211-Features:\r\n REST STREAM\r\n SIZE\r\n MDTM\r\n211 End',
  OPTS: () => '200 Always',
  TYPE: () => '200 Binary',
  PBSZ: () => '200 None',
  PROT: () => '200 Private',
  CWD: () => '250 There',
  MDTM: () => '213 20260102030405',
  RNFR: () => '350 To what?',
  RNTO: () => '250 Renamed',
};

/**
 * An FTPS server (explicit TLS) in this process that follows a script, for answers that no real
 * server gives on request.
 */
export async function startScriptedFtpsServer(script: Script): Promise<ScriptedFtpsServer> {
  const { caPem, valid } = await createCertificates();
  const secureContext = createSecureContext(valid);
  const commands: string[] = [];
  const sockets = new Set<Socket>();
  const servers = new Set<Server>();
  const secure = (socket: Socket) =>
    new TLSSocket(socket, { isServer: true, secureContext }).on('error', () => {});

  async function listen(take: (socket: Socket) => void): Promise<number> {
    const server = createServer((socket) => {
      sockets.add(socket.on('error', () => {}));
      take(socket);
    });
    servers.add(server);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return (server.address() as AddressInfo).port;
  }

  function serve(plain: Socket): void {
    let socket: Socket = plain;
    let coming = Promise.withResolvers<Socket>();
    const session: ScriptedSession = {
      data: async () => secure(await coming.promise),
      say: (line) => void socket.write(`${line}\r\n`),
    };

    async function passive(): Promise<number> {
      coming = Promise.withResolvers();
      return listen((data) => coming.resolve(data));
    }

    const builtIn: Script = {
      ...MANNERS,
      EPSV: async () => `229 Extended (|||${await passive()}|)`,
      // Like a server behind NAT: an address that is unreachable from here.
      PASV: async () => {
        const port = await passive();
        return `227 Passive (10,1,2,3,${port >> 8},${port & 255}).`;
      },
    };

    async function obey(line: string): Promise<void> {
      const [, name = '', argument = ''] = /^(\S+) ?(.*)$/.exec(line) ?? [];
      commands.push(line);
      const answer = (script[name] ?? builtIn[name] ?? (() => '502 Not here'))(argument, session);
      const reply = await answer;
      if (reply !== null) session.say(reply);
      if (name !== 'AUTH' || !reply?.startsWith('234')) return;
      plain.removeAllListeners('data');
      socket = secure(plain);
      attend(socket);
    }

    function attend(on: Socket): void {
      on.on('data', (bytes) => {
        for (const line of String(bytes).split('\r\n').filter(Boolean)) void obey(line);
      });
    }

    attend(plain);
    session.say('220 Scripted');
  }

  return {
    host: '127.0.0.1',
    port: await listen(serve),
    caPem,
    commands,
    async stop() {
      for (const server of servers) server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
