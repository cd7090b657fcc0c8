import { describe, expect, it } from 'vitest';
import { isAllowedAddress, isInRanges } from '../../../src/adapters/webhooks/addresses.ts';

const REFUSED = {
  loopback: [
    '127.0.0.1',
    '127.255.255.254',
    '::1',
    '127.1',
    '2130706433',
    '0x7f000001',
    '0177.0.0.1',
  ],
  private: ['10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', 'fc00::1', 'fd12:3456::1'],
  'link-local': ['169.254.0.1', 'fe80::1', 'fe80::1%eth0', 'fec0::1'],
  metadata: ['169.254.169.254', 'fd00:ec2::254', '100.100.100.200', '168.63.129.16', '192.0.0.192'],
  'carrier-grade NAT': ['100.64.0.1', '100.127.255.255'],
  unspecified: ['0.0.0.0', '0.1.2.3', '::'],
  'multicast and broadcast': ['224.0.0.1', '239.255.255.255', '255.255.255.255', 'ff02::1'],
  reserved: [
    '240.0.0.1',
    '198.18.0.1',
    '192.0.2.1',
    '198.51.100.1',
    '203.0.113.1',
    '192.88.99.1',
    '2001:db8::1',
    '100::1',
    '4000::1',
  ],
  'IPv4 in IPv6': [
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '::ffff:10.0.0.1',
    '::127.0.0.1',
    '::ffff:0:10.0.0.1',
  ],
  NAT64: [
    '64:ff9b::10.0.0.1',
    '64:ff9b::808:808',
    '64:ff9b:1::808:808',
    '64:ff9b:1:2:3:4:169.254.169.254',
  ],
  '6to4 and Teredo': ['2002:7f00:1::', '2002:808:808::1', '2001:0:4136:e378:8000:63bf:3fff:fdd2'],
  'no address': ['', 'localhost', 'example.com', '1.2.3.4.5', '256.1.1.1', '8.8.8.8/8', '[::1]'],
};

describe.each(Object.entries(REFUSED))('%s', (_, addresses) => {
  it.each(addresses)('%s is rejected', (address) => {
    expect(isAllowedAddress(address, [])).toBe(false);
  });
});

describe('public addresses', () => {
  it.each([
    '8.8.8.8',
    '1.1.1.1',
    '172.32.0.1',
    '100.128.0.1',
    '2001:4860:4860::8888',
    '2606:4700::1111',
    '::ffff:8.8.8.8',
  ])('%s is allowed', (address) => {
    expect(isAllowedAddress(address, [])).toBe(true);
  });
});

describe('allowed ranges', () => {
  it.each([
    ['10.1.2.3', '10.0.0.0/8'],
    ['::ffff:10.1.2.3', '10.0.0.0/8'],
    ['127.0.0.1', '127.0.0.1/32'],
    ['fd12::1', 'fd00::/8'],
    ['::1', '::1/128'],
  ])('%s is allowed within %s', (address, cidr) => {
    expect(isAllowedAddress(address, [cidr])).toBe(true);
    expect(isInRanges(address, [cidr])).toBe(true);
  });

  it('contain only their own addresses', () => {
    expect(isAllowedAddress('10.1.2.3', ['10.2.0.0/16', 'fd00::/8'])).toBe(false);
    expect(isAllowedAddress('fd12::1', ['10.0.0.0/8'])).toBe(false);
  });

  it('must contain both ends of a translated address', () => {
    expect(isAllowedAddress('64:ff9b::808:808', ['64:ff9b::/96'])).toBe(true);
    expect(isAllowedAddress('64:ff9b::10.0.0.1', ['64:ff9b::/96'])).toBe(false);
    expect(isAllowedAddress('64:ff9b::10.0.0.1', ['10.0.0.0/8'])).toBe(false);
    expect(isAllowedAddress('64:ff9b::10.0.0.1', ['64:ff9b::/96', '10.0.0.0/8'])).toBe(true);
    // The Teredo client in it is 192.0.2.45.
    expect(isAllowedAddress('2001:0:4136:e378:8000:63bf:3fff:fdd2', ['2001::/32'])).toBe(false);
    expect(isAllowedAddress('2001:0:4136:e378:8000:63bf:f7f7:f7f7', ['2001::/32'])).toBe(true);
  });

  it('contain no public address', () => {
    expect(isInRanges('8.8.8.8', ['10.0.0.0/8'])).toBe(false);
  });
});
