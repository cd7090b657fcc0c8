import { describe, expect, it } from 'vitest';
import { objectionToWebhookUrl } from '../../../src/adapters/webhooks/url.ts';

const LOOPBACK = ['127.0.0.0/8', '::1/128'];

describe('a URL for webhooks', () => {
  it.each([
    'https://receiver.example.com/hook?a=b',
    'https://93.184.216.34:8443/',
    'https://[2606:4700::1111]/',
    'https://bücher.example/',
  ])('may be %s', (url) => expect(objectionToWebhookUrl(url, [])).toBeNull());

  it.each([
    ['loopback', 'https://127.0.0.1/'],
    ['decimal', 'https://2130706433/'],
    ['hexadecimal', 'https://0x7f000001/'],
    ['hexadecimal in parts', 'https://0x7f.0.0.0x1/'],
    ['octal', 'https://0177.0.0.1/'],
    ['short', 'https://127.1/'],
    ['with a trailing dot', 'https://127.0.0.1./'],
    ['percent-encoded', 'https://%31%32%37.0.0.1/'],
    ['in full-width digits', 'https://１２７.0.0.1/'],
    ['in circled digits', 'https://①②⑦.⓪.⓪.①/'],
    ['by its name', 'https://localhost/'],
    ['by its name with a dot', 'https://LOCALHOST./'],
    ['by a name below its name', 'https://a.localhost/'],
    ['unspecified', 'https://0.0.0.0/'],
    ['zero', 'https://0/'],
    ['private', 'https://10.1.2.3/'],
    ['private', 'https://172.16.0.1/'],
    ['private', 'https://192.168.0.1/'],
    ['link-local', 'https://169.254.169.254/latest/meta-data/'],
    ['CGNAT', 'https://100.64.0.1/'],
    ['multicast', 'https://224.0.0.1/'],
    ['reserved', 'https://255.255.255.255/'],
    ['IPv6 loopback', 'https://[::1]/'],
    ['IPv6 loopback, spelt out', 'https://[0:0:0:0:0:0:0:1]/'],
    ['IPv6 unspecified', 'https://[::]/'],
    ['IPv4-mapped', 'https://[::ffff:127.0.0.1]/'],
    ['IPv4-mapped, in hexadecimal', 'https://[::ffff:7f00:1]/'],
    ['NAT64', 'https://[64:ff9b::7f00:1]/'],
    ['6to4', 'https://[2002:7f00:1::]/'],
    ['unique local', 'https://[fd00::1]/'],
    ['link-local', 'https://[fe80::1]/'],
  ])('may not be %s: %s', (_, url) =>
    expect(objectionToWebhookUrl(url, [])).toMatch(
      /^must not lead to a private or reserved address/,
    ),
  );

  it('may be private if its range is allowed', () => {
    for (const url of [
      'https://127.0.0.1/',
      'https://2130706433/',
      'https://[::1]/',
      'https://localhost/',
    ])
      expect(objectionToWebhookUrl(url, LOOPBACK)).toBeNull();
    expect(objectionToWebhookUrl('https://10.0.0.1/', LOOPBACK)).toMatch(/^must not lead/);
  });

  it('may be plain http only in an allowed range; a name is checked when it is dialled', () => {
    expect(objectionToWebhookUrl('http://127.0.0.1/', [])).toContain('WAYBILL_WEBHOOK_ALLOW_CIDRS');
    expect(objectionToWebhookUrl('http://receiver.example.com/', [])).toMatch(
      /^must be an https URL/,
    );
    expect(objectionToWebhookUrl('http://93.184.216.34/', LOOPBACK)).toMatch(
      /^must be an https URL/,
    );
    expect(objectionToWebhookUrl('http://127.0.0.1:8080/', [])).toMatch(/^must be an https URL/);
    expect(objectionToWebhookUrl('http://127.0.0.1:8080/', LOOPBACK)).toBeNull();
    expect(objectionToWebhookUrl('http://receiver.internal/', LOOPBACK)).toBeNull();
  });
});
