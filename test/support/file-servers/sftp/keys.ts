import ssh2 from 'ssh2';

/** Creates an ed25519 key in OpenSSH's format, encrypted with the passphrase. */
export function newEncryptedKey(passphrase: string): { public: string; private: string } {
  // Some keys of ssh2 are malformed: about one of 200.
  for (;;) {
    const pair = ssh2.utils.generateKeyPairSync('ed25519', {
      passphrase,
      cipher: 'aes256-ctr',
      rounds: 1,
    });
    if (!(ssh2.utils.parseKey(pair.private, passphrase) instanceof Error)) return pair;
  }
}
