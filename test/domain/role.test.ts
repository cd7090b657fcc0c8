import { describe, expect, it } from 'vitest';
import { actorOf, personOf } from '../../src/domain/person.ts';
import {
  accountsOf,
  grantsOf,
  parseRoleRule,
  type RoleRule,
  scopesIn,
} from '../../src/domain/role.ts';

const rules = (...texts: string[]) => texts.map((text) => parseRoleRule(text) as RoleRule);

describe('a rule', () => {
  it.each([
    ['groups:ops=operator@acc_default', 'groups', 'ops', 'operator', 'acc_default'],
    ['email:ann@example.com=admin@*', 'email', 'ann@example.com', 'admin', '*'],
    ['realm_access.roles:a=viewer@a-b', 'realm_access.roles', 'a', 'viewer', 'a-b'],
    ['https://example.com/roles:x:y=viewer@a', 'https://example.com/roles', 'x:y', 'viewer', 'a'],
    ['groups:cn=ops%2Cdc=a%25=auditor@*', 'groups', 'cn=ops,dc=a%', 'auditor', '*'],
  ])('is read: %s', (text, claim, value, role, account) => {
    expect(parseRoleRule(text)).toEqual({ claim, value, role, account });
  });

  it.each([
    '',
    'groups',
    'groups:ops',
    'groups:ops=operator',
    'groups:ops=operator@',
    'groups:ops=operator@ACC',
    'groups:ops=Operator@*',
    'groups:ops=root@*',
    'groups:=viewer@*',
    ':ops=viewer@*',
    'groups=viewer@*',
  ])('is rejected: %s', (text) => {
    expect(parseRoleRule(text)).toBeNull();
  });
});

describe('claims', () => {
  it.each([
    [{ groups: ['ops', 'x'] }, ['operator']],
    [{ groups: 'ops' }, ['operator']],
    [{ groups: ['OPS', 'op', 'ops '] }, []],
    [{ groups: { ops: true } }, []],
    [{ realm: { roles: ['a'] } }, ['viewer']],
    [{ 'realm.roles': ['a'], realm: { roles: [] } }, ['viewer']],
    [{ realm: 'roles' }, []],
    [{ email: 'a@b.c' }, []],
    [{ email: 'a@b.c', email_verified: 'true' }, ['admin']],
    [{ email: 'a@b.c', email_verified: 'false' }, []],
    [{ email: 'a@b.c', email_verified: true }, ['admin']],
    [{ email: 'a@b.c', email_verified: false }, []],
    [{ groups: ['ops'], email: 'a@b.c', email_verified: true }, ['operator', 'admin']],
    [{}, []],
  ])('%j give the roles %j', (claims, roles) => {
    const given = rules('groups:ops=operator@a', 'realm.roles:a=viewer@a', 'email:a@b.c=admin@*');
    expect(grantsOf(claims, given).map(({ role }) => role)).toEqual(roles);
  });

  it('never give more than an inherited property', () => {
    expect(grantsOf({}, rules('constructor.name:Object=admin@*'))).toEqual([]);
  });
});

describe('grants', () => {
  const grants = grantsOf({ g: ['1', '2', '3'] }, rules('g:1=viewer@a', 'g:2=operator@b'));
  it('have in each account the scopes that are listed for it', () => {
    expect(scopesIn(grants, 'a')).toEqual([
      'transfers:read',
      'flows:read',
      'webhooks:read',
      'observe',
    ]);
    expect(scopesIn(grants, 'b')).toEqual([
      'transfers:write',
      'flows:write',
      'webhooks:write',
      'operate',
    ]);
    expect(scopesIn(grants, 'c')).toEqual([]);
    expect(accountsOf(grants, ['a', 'c'])).toEqual(['a', 'b']);
  });

  it('unite with those for every account', () => {
    const all = [...grants, { role: 'auditor' as const, account: '*' }];
    expect(scopesIn(all, 'b')).toContain('audit:all');
    expect(scopesIn(all, 'b')).toContain('operate');
    expect(scopesIn(all, 'c')).not.toContain('operate');
    expect(accountsOf(all, ['a', 'c'])).toEqual(['a', 'b', 'c']);
  });
});

describe('the actor of a person', () => {
  it.each([
    [{ sub: '7', email: 'a@b.c', email_verified: true, name: 'Ann' }, 'person:a@b.c (7)'],
    [{ sub: '7', name: 'root@b.c' }, 'person:root at b.c (7)'],
    [{ sub: '7', email: 'a@b.c', email_verified: false, name: 'Ann' }, 'person:Ann (7)'],
    [{ sub: '7', preferred_username: 'ann' }, 'person:ann (7)'],
    [{ sub: '7' }, 'person:7'],
    [{ sub: '7', name: 'a\u202e\n\u0000b' }, 'person:ab (7)'],
    [{ sub: '7', name: 'root (1)' }, 'person:root (1) (7)'],
    [{ sub: '7', name: 7 }, 'person:7'],
    [{ sub: '7', name: 'a\ud83d' }, 'person:a\ufffd (7)'],
    [{ sub: '7', name: `${'a'.repeat(199)}😀` }, `person:${'a'.repeat(199)}\ufffd (7)`],
  ])('of %j is %s', (claims, actor) => {
    expect(actorOf(personOf(claims))).toBe(actor);
  });
});
