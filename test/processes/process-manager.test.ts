import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { aborted } from '../../src/concurrency/aborted.ts';
import { runProcessManager, type UnderWay } from '../../src/processes/process-manager.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { openTestInstallation, type TestInstallation } from '../support/service/installation.ts';

describeWithPostgres('a process manager', () => {
  let installation: TestInstallation;
  const ends: (() => Promise<unknown>)[] = [];
  beforeAll(async () => {
    installation = await openTestInstallation();
  });
  afterEach(async () => {
    for (const end of ends.splice(0)) await end();
    vi.restoreAllMocks();
  });
  afterAll(() => installation?.close());

  /** Runs a manager of batches until the test ends. It calls `look` at each look. */
  function run(look: (work: UnderWay<string>) => void) {
    const errors = vi.spyOn(installation.logger, 'error').mockImplementation(() => undefined);
    const stop = new AbortController();
    const ended = runProcessManager<string>(
      installation,
      {
        subject: { one: 'batch', all: 'batches' },
        isNews: () => false,
        begin: (work) => async () => {
          look(work);
          return Number.POSITIVE_INFINITY;
        },
      },
      stop.signal,
    );
    const end = () => {
      stop.abort();
      return ended;
    };
    ends.push(end);
    return { errors, end };
  }

  it('sets work aside that fails, and continues with the other', async () => {
    let done = 0;
    let rounds = 0;
    const { errors } = run((work) => {
      rounds++;
      if (work.get('bat_1') === undefined)
        work.start('bat_1', 'fails', async () => Promise.reject(new Error('broken')));
      if (work.get('bat_2') === undefined && done < 2)
        work.start('bat_2', 'succeeds', async () => void done++);
    });
    await vi.waitFor(() => expect([done, rounds]).toEqual([2, 3]), 4_000);
    expect(errors.mock.calls).toEqual([
      [
        { err: new Error('broken'), batch_id: 'bat_1' },
        'a batch could not be processed; retrying in 5 s',
      ],
    ]);
  });

  it('aborts its work when it ends, and waits for that', async () => {
    let ended = false;
    const started = vi.fn();
    const { errors, end } = run((work) =>
      work.start('bat_1', 'waits', async (stop) => {
        started();
        await aborted(stop);
        ended = true;
        throw new Error('aborted');
      }),
    );
    await vi.waitFor(() => expect(started).toHaveBeenCalled());
    await end();
    expect(ended).toBe(true);
    expect(errors).not.toHaveBeenCalled();
  });

  it('begins a new round after an error of the round', { timeout: 20_000 }, async () => {
    let rounds = 0;
    const { errors } = run(() => {
      if (++rounds === 1) throw new Error('away');
    });
    await vi.waitFor(() => expect(rounds).toBe(2), 10_000);
    expect(errors.mock.calls).toEqual([
      [{ err: new Error('away') }, 'batches could not be processed; retrying in 5 s'],
    ]);
  });
});
