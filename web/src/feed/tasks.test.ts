import { expect, it } from 'vitest';
import type { Snapshot } from '../lib/api';
import { COUNTER } from './columns';
import { Tasks, type Thread } from './tasks';

const SECOND = 1_000_000_000;

/** A second of a process with two threads; only the listed threads have rows. */
function snapshot(fields: string[], listed: { tid: number; open: string | null; flags?: string }[]): Snapshot {
  const column = <T>(of: (thread: (typeof listed)[number]) => T) => listed.map(of);
  return {
    host: 'a',
    boot: 'b',
    skipped: 0,
    fields,
    summary: {},
    duration_ns: SECOND,
    processes: {
      rows: listed.length > 0 ? 1 : 0,
      total: listed.length > 0 ? 1 : 0,
      columns: { key: ['7-1'], pid: [7], name: ['db'], run_ns: [5], blocked_ns: [9], thread_rows: [2] },
    },
    threads: [
      {
        rows: listed.length,
        total: listed.length,
        columns: {
          process: column(() => '7-1'),
          key: column(({ tid }) => `${tid}-1`),
          tid: column(({ tid }) => tid),
          run_ns: column(() => 5),
          blocked_ns: column(({ flags }) => (flags === 'unwatched' ? null : 3)),
          wakeups: column(({ flags }) => (flags === 'unwatched' ? null : 1)),
          flags: column(({ flags }) => flags ?? ''),
          open_wait: column(({ open }) => open),
        },
      },
    ],
  } as unknown as Snapshot;
}

function threadsOf(tasks: Tasks): Thread[] {
  return [...tasks.processes.get('7-1')!.threads.values()];
}

it('a thread of a remote host that has no row went on with what it waited for', () => {
  const tasks = new Tasks();
  const fields = ['RUN', 'SCHED', 'WAITS'];
  tasks.apply(
    snapshot(fields, [
      { tid: 8, open: 'futex' },
      { tid: 9, open: null },
    ]),
    false,
  );
  // Only one thread ran: the other was blocked for the whole second, and the first never waited.
  tasks.apply(snapshot(fields, [{ tid: 9, open: null }]), true);
  tasks.apply(snapshot(fields, []), true);
  const [waits, ready] = threadsOf(tasks);
  expect(waits!.counters[COUNTER.blocked_ns]).toBe(SECOND);
  expect(waits!.waits).toEqual([['futex', SECOND]]);
  expect(waits!.counters[COUNTER.run_ns]).toBe(0);
  expect(ready!.counters[COUNTER.blocked_ns]).toBe(0);
  expect(ready!.waits).toEqual([]);
  // Its row, which has the sum over its threads, is missing too.
  expect(tasks.processes.get('7-1')!.counters[COUNTER.blocked_ns]).toBeNaN();
});

it('without wait reasons, how long a thread without a row was blocked is no data', () => {
  const tasks = new Tasks();
  const fields = ['RUN', 'SCHED'];
  tasks.apply(
    snapshot(fields, [
      { tid: 8, open: null },
      { tid: 9, open: null },
    ]),
    false,
  );
  tasks.apply(snapshot(fields, [{ tid: 9, open: null }]), true);
  const [rests, ran] = threadsOf(tasks);
  expect(rests!.counters[COUNTER.blocked_ns]).toBeNaN();
  expect(rests!.counters[COUNTER.run_ns]).toBe(0);
  expect(rests!.counters[COUNTER.wakeups]).toBe(0);
  expect(ran!.counters[COUNTER.blocked_ns]).toBe(3);
});

it('a thread that BPF does not observe stays without data of the scheduler', () => {
  const tasks = new Tasks();
  const fields = ['RUN', 'SCHED', 'WAITS'];
  tasks.apply(
    snapshot(fields, [
      { tid: 8, open: null, flags: 'unwatched' },
      { tid: 9, open: null },
    ]),
    false,
  );
  tasks.apply(snapshot(fields, [{ tid: 9, open: null }]), true);
  const [hidden] = threadsOf(tasks);
  expect([hidden!.counters[COUNTER.blocked_ns], hidden!.counters[COUNTER.wakeups]]).toEqual([NaN, NaN]);
  expect(hidden!.counters[COUNTER.run_ns]).toBe(0);
});
