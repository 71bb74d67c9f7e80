import { expect, it } from 'vitest';
import type { Snapshot } from '../lib/api';
import { COUNTER, isMeasured, COLUMN_BY_ID, usualColumns } from './columns';
import { Limits, nameOfGroup, usedUp } from './limits';
import { Tasks } from './tasks';

/** Two groups of a pod share its limit, a third has a tighter one; nothing is known yet of a new one. */
function snapshot(more: Partial<Snapshot> = {}): Snapshot {
  const paths = ['/pod/a', '/pod/b', '/pod/c', '/new'];
  return {
    host: 'a',
    boot: 'b',
    skipped: 0,
    fields: ['RUN', 'CGROUPS'],
    summary: { cgroups_left_out: 0 },
    duration_ns: 1e9,
    cgroups: {
      rows: 4,
      total: 4,
      columns: {
        cgroup: paths,
        cpu_limit: [0.5, 0.5, 0.2, 1],
        limited_by: ['/pod', '/pod', '/pod/c', '/new'],
        periods: [10, 10, 10, null],
        throttled_periods: [4, 4, 9, null],
        throttled_ns: [3e8, 3e8, 7e8, null],
      },
    },
    processes: {
      rows: 4,
      total: 4,
      columns: {
        key: ['1-1', '2-1', '3-1', '4-1'],
        pid: [1, 2, 3, 4],
        name: 'p',
        run_ns: 1,
        thread_rows: 1,
        cgroup: ['/pod/a', '/new', '/elsewhere', '/pod/c'],
      },
    },
    threads: [],
    ...more,
  } as unknown as Snapshot;
}

it('a limit that groups share counts once, and the tightest one is that of all', () => {
  const limits = new Limits(snapshot());
  expect(limits.ofAll(['/pod/a', '/pod/b', '/pod/c', '/elsewhere'])).toEqual({ cpus: 0.2, throttledNs: 1e9 });
  expect(limits.limiters().map(({ by }) => by)).toEqual(['/pod/c', '/pod', '/new']);
  expect(usedUp(limits.limiters()).map(({ by }) => by)).toEqual(['/pod/c', '/pod']);
});

it('no limit, not used up and no data are three things', () => {
  const limits = new Limits(snapshot());
  expect(limits.of('/elsewhere')).toEqual({ cpus: Infinity, throttledNs: 0 });
  expect(limits.of('/new')).toMatchObject({ cpus: 1, throttledNs: NaN });
  const partly = new Limits(snapshot({ summary: { cgroups_left_out: 3 } }));
  expect(partly.of('/elsewhere')).toEqual({ cpus: NaN, throttledNs: NaN });
  expect(new Limits(snapshot({ fields: ['RUN'] })).ofAll(['/elsewhere'])).toEqual({ cpus: NaN, throttledNs: NaN });
});

it('a process that rests keeps the limit of its group', () => {
  const tasks = new Tasks();
  tasks.apply(snapshot(), true);
  const limitOf = (key: string) => tasks.processes.get(key)!.counters[COUNTER.cpu_limit];
  expect(['1-1', '2-1', '3-1', '4-1'].map(limitOf)).toEqual([0.5, 1, Infinity, 0.2]);
  const quiet = snapshot();
  tasks.apply({ ...quiet, processes: { rows: 0, total: 0, columns: {} } }, true);
  expect(limitOf('1-1')).toBe(0.5);
  expect(tasks.processes.get('1-1')!.counters[COUNTER.throttled_ns]).toBe(3e8);
});

it('the columns are usual only where something has a limit', () => {
  expect(usualColumns(false, true)).toEqual(expect.arrayContaining(['limit', 'throttled']));
  expect(usualColumns(false, false)).not.toContain('limit');
  expect(isMeasured(COLUMN_BY_ID.get('limit')!, ['run_ns'])).toBe(false);
});

it('groups have the names that people know', () => {
  const id = '3f2a9c0d71be86c0ffee4f2a9c0d71be86c0ffee4f2a9c0d71be86c0ffee0123';
  expect(id.length).toBe(64);
  expect(nameOfGroup(`/docker/${id}`)).toBe('3f2a9c0d71be');
  expect(nameOfGroup(`/system.slice/docker-${id}.scope`)).toBe('3f2a9c0d71be');
  expect(['/system.slice/web.service', '/', ''].map(nameOfGroup)).toEqual(['web.service', '/', '/']);
});
