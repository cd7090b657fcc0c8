import { newHostKey } from '../../../../src/dev/sftp-server.ts';

/** An SFTP server that does not exist, for endpoints that nothing connects to. */
export const ABSENT_SERVER = {
  host: 'files.example.com',
  port: 22,
  username: 'me',
  privateKey: newHostKey(),
  root: '/',
  hostKeySha256: `SHA256:${'A'.repeat(43)}`,
};
