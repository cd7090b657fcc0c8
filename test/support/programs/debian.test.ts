import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { LONG } from '../../support/run/long.ts';
import { debianPackages } from './debian.ts';

test('programs of the system are used', async () => {
  const shell = await debianPackages(['dash'], ['/bin/sh']);
  expect(shell.available && shell.path('/bin/sh')).toBe('/bin/sh');
});

test('a program that is not available has a reason', LONG, async () => {
  const nothing = await debianPackages(['no-such-package'], ['/no/such/program']);
  expect(nothing).toEqual({
    available: false,
    reason: expect.stringMatching(/^no-such-package: not installed, and apt-get download fails/),
  });
});

test('concurrent callers get the same unpacked programs', async () => {
  const answers = await Promise.all(
    [1, 2, 3].map(() => debianPackages(['openssh-server'], ['/usr/sbin/sshd'])),
  );
  for (const answer of answers) {
    expect(answer).toEqual(answers[0]);
    if (answer.available) expect(existsSync(answer.path('/usr/sbin/sshd'))).toBe(true);
  }
});
