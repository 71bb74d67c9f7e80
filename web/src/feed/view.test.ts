import { describe, expect, it } from 'vitest';
import type { Snapshot } from '../lib/api';
import type { Cell as Value } from '../lib/api';
import { COUNTER, NUMBER_AT, NUMBERS, SCHEDULING, TEXT_AT, TEXTS, usualColumns, WAIT_SHARE } from './columns';
import { Tasks } from './tasks';
import { BORN, ENDED, IS_GROUP, IS_THREAD, OPEN, sum, Texts, ViewMaker, type Spec } from './view';

const SECOND = 1e9;

function snapshot(processes: Record<string, Value[]>, more: Partial<Snapshot> = {}): Snapshot {
  const rows = Object.values(processes)[0]?.length ?? 0;
  return {
    host: 'h',
    hostname: 'h',
    trust: 'local',
    boot: 'b',
    number: 1,
    skipped: 0,
    begin_ns: '0',
    end_ns: '1',
    end_ms: 0,
    wall_shift_ns: 0,
    duration_ns: SECOND,
    source: 'bpf',
    fields: [],
    flags: [],
    summary: {},
    cpus: { rows: 0, total: 0, columns: {} },
    processes: { rows, total: rows, columns: processes },
    irqs: { rows: 0, total: 0, columns: {} },
    cgroups: { rows: 0, total: 0, columns: {} },
    threads: [],
    ...more,
  };
}

const base: Spec = { layout: 'list', sort: 'cpu', descending: true, filter: '', open: [], hideIdle: false };

function names(tasks: Tasks, spec: Partial<Spec> = {}): string[] {
  const texts = new Texts();
  const view = new ViewMaker(tasks, { ...base, ...spec }, SECOND, texts).make();
  return Array.from(
    { length: view.rows },
    (_, row) => '  '.repeat(view.depths[row]!) + view.fresh[view.texts[row * TEXTS]!]!,
  );
}

const two = snapshot({
  key: ['1-5', '2-6'],
  pid: [1, 2],
  parent_pid: [0, 1],
  name: ['init', 'shell'],
  uid: [0, 1000],
  run_ns: [1e8, 3e8],
  thread_rows: [1, 2],
});

it('counts what ended; a row of summed children is no process', () => {
  const tasks = new Tasks();
  const rows = {
    key: ['1-5', '2-6', '0-7', '3-8'],
    pid: [1, 2, 0, 3],
    name: ['sh', 'cc', 'children of sh (summed)', 'ld'],
    life: ['', 'born_ended', '', 'ended'],
  };
  tasks.apply(snapshot(rows), true);
  const view = new ViewMaker(tasks, base, SECOND, new Texts()).make();
  expect([view.tasks, view.ended, view.alive]).toEqual([4, 2, 1]);
  const found = new ViewMaker(tasks, { ...base, filter: 'cc' }, SECOND, new Texts()).make();
  expect([found.tasks, found.ended, found.alive]).toEqual([1, 1, 0]);
});

describe('a storm', () => {
  /** `count` processes of one name, each alive for a moment; one has a name of its own. */
  const storm = (count: number): Tasks => {
    const all = Array.from({ length: count + 1 }, (_, nth) => nth);
    const tasks = new Tasks();
    tasks.apply(
      snapshot({
        key: all.map((nth) => `${nth + 10}-5`),
        pid: all.map((nth) => nth + 10),
        parent_pid: all.map(() => 1),
        name: all.map((nth) => (nth === count ? 'single' : 'stormchild')),
        uid: all.map(() => 0),
        run_ns: all.map(() => 5e6),
        life: all.map(() => 'born_ended'),
        thread_rows: all.map(() => 1),
      }),
      true,
    );
    return tasks;
  };

  it('is one row for all that began and ended under one name, and opens', () => {
    expect(names(storm(3))).toHaveLength(4);
    const tasks = storm(118);
    expect(names(tasks)).toEqual(['stormchild', 'single']);
    const view = new ViewMaker(tasks, base, SECOND, new Texts()).make();
    expect([view.tasks, view.ended]).toEqual([119, 119]);
    expect(view.numbers[NUMBER_AT.get('pid')!]).toBe(118);
    expect(view.numbers[NUMBER_AT.get('cpu')!]).toBeCloseTo(59);
    expect(view.marks[0]! & (IS_GROUP | BORN | ENDED)).toBe(IS_GROUP | BORN | ENDED);
    const opened = names(tasks, { open: ['group:short:stormchild'] });
    expect([opened.length, opened[1]]).toEqual([120, '  stormchild']);
    expect(names(tasks, { filter: '17' })).toEqual(['stormchild']);
    // In the tree below their parent, closed until it is opened, and counted once.
    const all = new Tasks();
    all.apply(
      snapshot({
        key: ['1-1', ...Array.from({ length: 5 }, (_, nth) => `${nth + 10}-5`)],
        pid: [1, 10, 11, 12, 13, 14],
        parent_pid: [0, 1, 1, 1, 1, 1],
        name: ['shell', ...Array.from({ length: 5 }, () => 'stormchild')],
        run_ns: [0, 5e6, 5e6, 5e6, 5e6, 5e6],
        life: ['', ...Array.from({ length: 5 }, () => 'born_ended')],
      }),
      true,
    );
    expect(names(all, { layout: 'tree' })).toEqual(['shell', '  stormchild']);
    expect(names(all, { layout: 'tree', open: ['group:short:1-1:stormchild'] })).toHaveLength(7);
  });
});

it('groups by service as a report does, whatever container the rows are in', () => {
  const tasks = new Tasks();
  tasks.apply(
    snapshot({
      key: ['1-5', '2-5', '3-5', '4-5'],
      pid: [1, 2, 3, 4],
      name: ['a', 'b', 'c', 'd'],
      container: ['web', 'db', 'cron.service', ''],
      service: ['app.service', 'app.service', 'cron.service', ''],
      pod: ['', '0f-1', '', ''],
      run_ns: [4e8, 3e8, 2e8, 1e8],
    }),
    true,
  );
  expect(names(tasks, { layout: 'service' })).toEqual(['app.service', 'cron.service', 'no service']);
  expect(names(tasks, { filter: 'app.serv' })).toEqual(['a', 'b']);
  expect(names(tasks, { filter: '0f-1' })).toEqual(['b']);
});

describe('tasks', () => {
  it('keeps a process at zero that a message leaves out, until it ended', () => {
    const tasks = new Tasks();
    tasks.apply(two, true);
    tasks.apply(
      snapshot({ key: ['1-5'], pid: [1], parent_pid: [0], name: ['init'], run_ns: [5e8], life: ['ended'] }),
      true,
    );
    expect(tasks.processes.get('2-6')?.counters[COUNTER.run_ns]).toBe(0);
    expect(tasks.processes.get('2-6')?.counters[COUNTER.blocked_ns]).toBeNaN();
    tasks.apply(snapshot({ key: ['2-6'], pid: [2], parent_pid: [1], name: ['shell'], run_ns: [1] }), true);
    expect([...tasks.processes.keys()]).toEqual(['2-6']);
  });

  it('does not know what a cut table left out', () => {
    const tasks = new Tasks();
    tasks.apply(two, true);
    const cut = snapshot({ key: ['1-5'], pid: [1], parent_pid: [0], name: ['init'], run_ns: [5e8] });
    tasks.apply({ ...cut, processes: { ...cut.processes, total: 2 } }, true);
    expect(tasks.processes.get('2-6')?.counters[COUNTER.run_ns]).toBeNaN();
  });

  it('starts again after a gap or another boot', () => {
    const tasks = new Tasks();
    tasks.apply(two, true);
    tasks.apply(snapshot({ key: ['9-9'], pid: [9], name: ['x'], run_ns: [1] }, { boot: 'other' }), true);
    expect([...tasks.processes.keys()]).toEqual(['9-9']);
  });

  it('knows what a task waited for, and forgets it when the task did nothing', () => {
    const tasks = new Tasks();
    tasks.apply(
      snapshot({ key: ['1-5'], pid: [1], name: ['a'], run_ns: [1], wait_reason: ['futex'], wait_ns: [9] }),
      true,
    );
    expect(tasks.processes.get('1-5')?.waits).toEqual([['futex', 9]]);
    tasks.apply(snapshot({ key: ['2-6'], pid: [2], name: ['b'], run_ns: [1], wait_reason: [''], wait_ns: [0] }), true);
    expect(tasks.processes.get('1-5')?.waits).toEqual([]);
    expect(tasks.processes.get('2-6')?.waits).toEqual([]);
  });
});

it('sorts waits by their words: two system calls with the same are side by side', () => {
  const tasks = new Tasks();
  const reasons = ['epoll_wait', 'futex', 'poll'];
  tasks.apply(
    snapshot({
      key: ['1-1', '2-1', '3-1'],
      pid: [1, 2, 3],
      name: reasons,
      run_ns: [1, 1, 1],
      wait_reason: reasons,
      wait_ns: [9, 9, 9],
    }),
    true,
  );
  const waitWords = { epoll_wait: 'I/O events', poll: 'I/O events', futex: 'lock' };
  const spec = { sort: 'wait', descending: false };
  expect(names(tasks, spec)).toEqual(['epoll_wait', 'futex', 'poll']);
  expect(names(tasks, { ...spec, waitWords })).toEqual(['epoll_wait', 'poll', 'futex']);
});

it('knows how tasks are scheduled where that is not the default, and keeps it while they are idle', () => {
  const tasks = new Tasks();
  const row = { key: ['1-1', '2-1'], pid: [1, 2], name: ['a', 'b'], run_ns: [2, 1] };
  const shown = (): string[] => {
    const view = new ViewMaker(tasks, base, SECOND, new Texts()).make();
    const place = TEXT_AT.get(SCHEDULING)!;
    return Array.from({ length: view.rows }, (_, at) => view.fresh[view.texts[at * TEXTS + place]!]!);
  };
  tasks.apply(snapshot({ ...row, scheduling: ['nice 19', null] }), true);
  expect(shown()).toEqual(['nice 19', '']);
  tasks.apply(snapshot({ key: ['2-1'], pid: [2], name: ['b'], run_ns: [0], scheduling: ['real-time 50'] }), true);
  expect(shown()).toEqual(['nice 19', 'real-time 50']);
  tasks.apply(snapshot(row), true);
  expect(shown()).toEqual(['', '']);
});

it('waits for a CPU where it is ready for longer than it is blocked, alone and in a group', () => {
  const tasks = new Tasks();
  tasks.apply(
    snapshot({
      key: ['1-1', '2-1', '3-1'],
      pid: [1, 2, 3],
      name: ['shop', 'shop', 'db'],
      run_ns: [2.1e8, 1e8, 1e8],
      run_delay_ns: [7.4e8, 1e8, 4e8],
      blocked_ns: [0.5e8, 8e8, 5e8],
      wait_reason: ['clock_nanosleep', 'disk', 'read'],
      wait_ns: [0.5e8, 8e8, 5e8],
    }),
    true,
  );
  const waits = (spec: Partial<Spec>): Record<string, [string, number]> => {
    const view = new ViewMaker(tasks, { ...base, ...spec }, SECOND, new Texts()).make();
    const text = (row: number, id: string): string => view.fresh[view.texts[row * TEXTS + TEXT_AT.get(id)!]!]!;
    const share = (row: number): number => view.numbers[row * NUMBERS + NUMBER_AT.get(WAIT_SHARE)!]!;
    const rows = Array.from({ length: view.rows }, (_, row) => row);
    return Object.fromEntries(rows.map((row) => [text(row, 'name') + row, [text(row, 'wait'), share(row)]]));
  };
  expect(waits({ sort: 'pid', descending: false })).toEqual({
    shop0: ['ready', 0.74],
    shop1: ['disk', 0.8],
    db2: ['read', 0.5],
  });
  const groups = waits({ layout: 'program', sort: 'name', descending: true });
  expect(groups['shop0']![0]).toBe('ready');
  expect(groups['shop0']![1]).toBeCloseTo(0.42);
});

describe('view', () => {
  const tasks = new Tasks();
  tasks.apply(two, true);

  it('sorts, filters, groups', () => {
    expect(names(tasks)).toEqual(['shell', 'init']);
    expect(names(tasks, { descending: false })).toEqual(['init', 'shell']);
    expect(names(tasks, { filter: 'INI' })).toEqual(['init']);
    expect(names(tasks, { filter: '2' })).toEqual(['shell']);
    expect(names(tasks, { layout: 'user' })).toEqual(['1000', 'root']);
  });

  it('finds and shows the user and the interpreter of a script', () => {
    const scripts = new Tasks();
    const names2 = {
      name: ['nightly-report', 'python3.11'],
      interpreter: ['python3.11', null],
      user: ['ann', null],
      product: ['Größe 3', null],
    };
    scripts.apply(
      snapshot({ key: ['1-5', '2-6'], pid: [1, 2], uid: [1000, 0], ...names2, run_ns: [3, 1], thread_rows: [1, 1] }),
      true,
    );
    expect(names(scripts, { filter: 'python3' })).toEqual(['nightly-report', 'python3.11']);
    expect(names(scripts, { filter: 'größe' })).toEqual(['nightly-report']);
    expect(names(scripts, { filter: 'ann' })).toEqual(['nightly-report']);
    expect(names(scripts, { layout: 'user' })).toEqual(['ann (1000)', 'root']);
    const view = new ViewMaker(scripts, base, SECOND, new Texts()).make();
    const cell = (row: number, id: string) => view.fresh[view.texts[row * TEXTS + TEXT_AT.get(id)!]!];
    expect([cell(0, 'uid'), cell(0, 'interpreter'), cell(1, 'uid'), cell(1, 'interpreter')]).toEqual([
      'ann',
      'python3.11',
      'root',
      '',
    ]);
  });

  it('shows children below parents', () => {
    expect(names(tasks, { layout: 'tree' })).toEqual(['init', '  shell']);
    expect(names(tasks, { layout: 'tree', open: ['-1-5'] })).toEqual(['init']);
    const threads = {
      rows: 1,
      total: 1,
      columns: { key: ['1-5'], process: '1-5', tid: [1], name: ['reaper'], run_ns: [1] },
    };
    const some = new Tasks();
    some.apply({ ...two, threads: [threads] }, true);
    expect(names(some, { layout: 'tree', open: ['1-5'] })).toEqual(['init', '  reaper', '  shell']);
    expect(names(tasks, { layout: 'tree', filter: 'shell' })).toEqual(['init', '  shell']);
    const found = (spec: Partial<Spec>): number =>
      new ViewMaker(tasks, { ...base, layout: 'tree', ...spec }, SECOND, new Texts()).make().tasks;
    expect([found({}), found({ filter: 'shell' })]).toEqual([2, 1]);
  });

  it('does not hang on parents in a ring', () => {
    const ring = new Tasks();
    ring.apply(
      snapshot({
        key: ['1-1', '2-2', '3-3'],
        pid: [1, 2, 3],
        parent_pid: [2, 1, 3],
        name: ['a', 'b', 'c'],
        run_ns: [1, 2, 3],
      }),
      true,
    );
    expect(
      names(ring, { layout: 'tree' })
        .map((name) => name.trim())
        .sort(),
    ).toEqual(['a', 'b', 'c']);
  });

  it('opens threads with keys of their own', () => {
    const some = new Tasks();
    const threads = {
      rows: 2,
      total: 2,
      columns: { key: ['2-6', '3-7'], process: '2-6', tid: [2, 3], name: ['shell', 'helper'], run_ns: [1e8, 2e8] },
    };
    some.apply({ ...two, threads: [threads] }, true);
    const view = new ViewMaker(some, { ...base, open: ['2-6'] }, SECOND, new Texts()).make();
    const keys = Array.from(view.keys, (place) => view.fresh[place]);
    expect(keys).toEqual(['2-6', '2-6/3-7', '2-6/2-6', '1-5']);
    expect(view.marks[0]! & OPEN).toBe(OPEN);
    expect(view.marks[1]! & IS_THREAD).toBe(IS_THREAD);
    expect(view.numbers[1 * NUMBERS + NUMBER_AT.get('cpu')!]).toBeCloseTo(20);
  });

  it('says of each thread whose it is, and sorts and finds by that', () => {
    const some = new Tasks();
    const threads = {
      rows: 3,
      total: 3,
      columns: {
        key: ['2-6', '3-7', '1-5'],
        process: ['2-6', '2-6', '1-5'],
        tid: [2, 3, 1],
        name: ['worker', 'worker', 'worker'],
        run_ns: [1e8, 2e8, 3e8],
      },
    };
    some.apply({ ...two, threads: [threads] }, true);
    const owners = (spec: Partial<Spec>): string[] => {
      const view = new ViewMaker(some, { ...base, layout: 'threads', ...spec }, SECOND, new Texts()).make();
      return Array.from(
        { length: view.rows },
        (_, row) => view.fresh[view.texts[row * TEXTS + TEXT_AT.get('process')!]!]!,
      );
    };
    expect(owners({})).toEqual(['init', 'shell', 'shell']);
    expect(owners({ sort: 'process' })).toEqual(['shell', 'shell', 'init']);
    expect(owners({ filter: 'shell' })).toEqual(['shell', 'shell']);
    expect(usualColumns(true, false).slice(0, 2)).toEqual(['name', 'process']);
    expect(usualColumns(false, false)).not.toContain('process');
  });

  it('sends each text once', () => {
    const texts = new Texts();
    const first = new ViewMaker(tasks, base, SECOND, texts).make();
    const second = new ViewMaker(tasks, base, SECOND, texts).make();
    expect(first.restart).toBe(true);
    expect(first.fresh).toContain('shell');
    expect(second.fresh).toEqual([]);
    expect(second.restart).toBe(false);
  });
});

it('sums what is known, and takes the largest of the longest delays', () => {
  const [a, b] = [new Float64Array(13).fill(NaN), new Float64Array(13).fill(NaN)];
  a[COUNTER.run_ns] = 1;
  a[COUNTER.longest_run_delay_ns] = 5;
  b[COUNTER.longest_run_delay_ns] = 7;
  const total = sum([a, b]);
  expect(total[COUNTER.run_ns]).toBe(1);
  expect(total[COUNTER.longest_run_delay_ns]).toBe(7);
  expect(total[COUNTER.user_ns]).toBeNaN();
});
