import ssh2 from 'ssh2';

/** An SFTP server that does not exist, for endpoints that nothing connects to. */
export const ABSENT_SERVER = {
  host: 'files.example.com',
  port: 22,
  username: 'me',
  privateKey: ssh2.utils.generateKeyPairSync('ed25519').private,
  root: '/',
  hostKeySha256: `SHA256:${'A'.repeat(43)}`,
};
