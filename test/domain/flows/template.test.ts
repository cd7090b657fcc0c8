import { describe, expect, it } from 'vitest';
import { destinationOf, objectionToTemplate } from '../../../src/domain/flows/template.ts';

const VALUES = {
  flow: 'daily orders',
  path: '2026/a b#.csv',
  at: new Date('2026-03-01T23:30:05Z'),
  time_zone: 'Europe/Berlin',
};

describe('the template of a destination', () => {
  it.each([
    ['s3://archive/', 's3://archive/2026/a%20b%23.csv'],
    ['s3://archive/in/{path}', 's3://archive/in/2026/a%20b%23.csv'],
    ['s3://archive/{flow}/{name}', 's3://archive/daily%20orders/a%20b%23.csv'],
    ['s3://archive/{date:yyyy-MM-dd}/{name}', 's3://archive/2026-03-02/a%20b%23.csv'],
    ['s3://archive/{date:yyyy/MM}/', 's3://archive/2026/03/2026/a%20b%23.csv'],
    ['s3://archive/{date:HHmmss}-{name}', 's3://archive/003005-a%20b%23.csv'],
  ])('%s is %s', (template, destination) => {
    expect(objectionToTemplate(template)).toBeNull();
    expect(destinationOf(template, VALUES)).toBe(destination);
  });

  it.each([
    ['s3://archive/{file}', 'has the unknown placeholder {file}'],
    ['s3://archive/{date:week}', 'has the unknown placeholder {date:week}'],
    ['s3://{flow}/{name}', 'must not have a placeholder before its path'],
    ['s3://archive/{', 'must write { as %7B'],
    ['archive/{name}', 'must start with'],
    ['sftp://me%3Ahunter2@archive/', 'must not contain a password'],
  ])('%s is rejected: %s', (template, message) => {
    expect(objectionToTemplate(template)?.message).toContain(message);
  });
});
