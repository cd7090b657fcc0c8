import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { debianPackages } from './debian.ts';

test('uses what the system has', async () => {
  const shell = await debianPackages(['dash'], ['/bin/sh']);
  expect(shell.available && shell.path('/bin/sh')).toBe('/bin/sh');
});

test('says why a program can not be had', async () => {
  const nothing = await debianPackages(['no-such-package'], ['/no/such/program']);
  expect(nothing).toEqual({ available: false, reason: expect.stringMatching(/^no-such-package: neither installed nor to be had/) });
});

test('gives many callers at once the same programs, which are there', async () => {
  const answers = await Promise.all([1, 2, 3].map(() => debianPackages(['openssh-server'], ['/usr/sbin/sshd'])));
  for (const answer of answers) {
    expect(answer).toEqual(answers[0]);
    if (answer.available) expect(existsSync(answer.path('/usr/sbin/sshd'))).toBe(true);
  }
});
