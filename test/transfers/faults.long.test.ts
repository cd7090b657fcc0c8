import { expect, test, vi } from 'vitest';
import { useSftpPair } from '../support/service/sftp-pair.ts';
import { describeTransfers, retriesOf, until } from '../support/service/transfers.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 90_000 });

const MiB = 1 << 20;

await describeTransfers('faults of servers and networks', () => {
  const pair = useSftpPair({ WAYBILL_TRANSFER_RETRY_DELAYS: Array(100).fill('200ms').join(',') });

  for (const [side, direction] of [
    ['source', 'down'],
    ['source', 'up'],
    ['destination', 'up'],
    ['destination', 'down'],
  ] as const) {
    const title =
      'a file arrives after a cut at any eighth of the traffic, from the greeting to the rename: ';
    test(`${title}${side}, ${direction}`, async () => {
      const proxy = pair[side];
      const move = async (name: string) => {
        pair.create(name, 5_000);
        // No earlier connection is left: everything happens again.
        pair.source.cut();
        pair.destination.cut();
        await until(
          'they are gone',
          () => pair.source.connections + pair.destination.connections === 0,
        );
        // A file that it may not overwrite may be its own, if the rename got no answer.
        const id = await pair.submitted(name, 'careful');
        await pair.expectArrived(id, name);
        return id;
      };
      const before = proxy.forwarded[direction];
      await move(`uncut-${side}-${direction}`);
      const all = proxy.forwarded[direction] - before;
      const phases = new Set<string>();
      for (let eighth = 0; eighth < 8; eighth++) {
        proxy.cutAfter(Math.max(1, Math.floor((all * eighth) / 8)), direction);
        for (const { code, phase } of await retriesOf(
          pair.installation,
          await move(`cut-${side}-${direction}-${eighth}`),
        )) {
          expect(code).toBe('connection_failed');
          phases.add(phase);
        }
      }
      // The last transfer may have needed fewer bytes than the first.
      proxy.cutAfter(Number.POSITIVE_INFINITY, direction);
      expect([...phases]).toEqual(expect.arrayContaining([`${side}_connect`]));
    });
  }

  test('a file arrives over a narrow line with long round trips', async () => {
    for (const proxy of [pair.source, pair.destination]) {
      proxy.delay(80);
      proxy.throttle(4 * MiB);
    }
    pair.create('far', 9 * MiB);
    const id = await pair.submitted('far');
    await pair.expectArrived(id, 'far');
    expect(await retriesOf(pair.installation, id)).toEqual([]);
  });
});
