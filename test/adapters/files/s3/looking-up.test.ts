import { describe, expect, test } from 'vitest';
import { download, options, upload } from '../contract.ts';
import { useS3Server } from './endpoint-on.ts';

const never = new AbortController().signal;
const MiB = 1 << 20;
const BIG = 20 * MiB + 5;

// A page of S3 has 1,000 entries: as many would take seconds of CPU time.
const s3 = useS3Server({ pageSize: 20 });

const errorOf = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.fail('nothing was thrown'),
    (thrown: Error) => thrown,
  );

describe('looking up', () => {
  test('a bucket of another name fails', async () => {
    const wrong = s3.endpoint({ settings: { bucket: 'no-such-bucket' } });
    await expect(wrong.openSource('x', never)).rejects.toMatchObject({
      code: 'source_not_found',
      message: expect.stringContaining('bucket'),
    });
    await expect(wrong.list('', never)).rejects.toMatchObject({ code: 'source_not_found' });
    await expect(upload(wrong, 'x', Buffer.from('x'))).rejects.toMatchObject({
      code: 'destination_not_found',
      step: 'commit',
    });
    await expect(wrong.openDestination('x', options(BIG))).rejects.toMatchObject({
      code: 'destination_not_found',
      step: 'open',
    });
    await expect(
      wrong.openDestination('x', options(1, { overwrite: false })),
    ).rejects.toMatchObject({ code: 'destination_not_found' });
  });

  test('a bucket in another region names the region', async () => {
    const wrong = s3.endpoint({ settings: { region: 'eu-west-9' } });
    const error = await errorOf(wrong.openSource('x', never));
    expect(error).toMatchObject({
      code: 'source_not_found',
      message: expect.stringMatching(/another region.*eu-central-1/),
    });
  });

  test.each([
    '.',
    '..',
    'a/./b',
    'a/../b',
    'a//b',
    'trailing...',
    'plus+sign',
    '%2F',
    '100% #1?&=',
    `'"<>&`,
    '~!*()',
    'ü 文件 🚚',
  ])('the key %j works as it is', async (odd) => {
    const content = Buffer.from(odd);
    const odds = s3.endpoint();
    await upload(odds, `odd/${odd}`, content);
    expect(s3.server.object('bucket', `odd/${odd}`)?.body.size).toBe(content.length);
    expect(await download(odds, `odd/${odd}`)).toEqual(content);
    await odds.remove(`odd/${odd}`, never);
    expect(s3.server.object('bucket', `odd/${odd}`)).toBeUndefined();
  });

  test('leftovers removes nothing if there are none', async () => {
    await expect(s3.endpoint().remove('no-such-key', never)).rejects.toMatchObject({
      code: 'source_not_found',
    });
  });

  test('a folder lists more entries than one answer holds', async () => {
    const many = s3.endpoint();
    const names = Array.from({ length: 45 }, (_, index) => `many/${index}`);
    await Promise.all(names.map((name) => s3.put(name, Buffer.from('1'))));
    expect(await many.list('many', never)).toHaveLength(45);
  });
});
