// The grid's columns. In: nothing. Out: their titles, widths, units and the counters they need.
// Why: worker, grid, settings and help read one list. Meanings come from the receiver's own table (/api/v1/columns).

/** Raw counters of a task, in the order in which they are kept. */
export const COUNTERS = [
  'run_ns',
  'user_ns',
  'system_ns',
  'run_delay_ns',
  'blocked_ns',
  'longest_run_delay_ns',
  'voluntary_switches',
  'involuntary_switches',
  'wakeups',
  'migrations',
  'thread_rows',
  'nice',
  'last_cpu',
] as const;
export type Counter = (typeof COUNTERS)[number];
export const COUNTER = Object.fromEntries(COUNTERS.map((name, at) => [name, at])) as Record<Counter, number>;

/** How a counter becomes what the grid shows. */
export type Unit = 'share' | 'per_s' | 'ns' | 'plain' | 'text';

export interface GridColumn {
  id: string;
  title: string;
  /** Column of the receiver's table whose help text explains it. */
  explains: string;
  counter?: Counter;
  unit: Unit;
  /** px. */
  width: number;
  /** Smaller comes first where space is short. */
  rank: number;
  help: string;
}

export const GRID_COLUMNS: readonly GridColumn[] = [
  {
    id: 'name',
    title: 'Name',
    explains: 'name',
    unit: 'text',
    width: 200,
    rank: 0,
    help: 'Process: its program. Thread: its own name.',
  },
  {
    id: 'process',
    title: 'Process',
    explains: 'process_name',
    unit: 'text',
    width: 140,
    rank: 1.5,
    help: 'The process that a thread belongs to.',
  },
  {
    id: 'pid',
    title: 'PID',
    explains: 'pid',
    unit: 'plain',
    width: 70,
    rank: 3,
    help: 'Process id; thread id of a thread; number of processes of a group.',
  },
  {
    id: 'cpu',
    title: '%CPU',
    explains: 'run_ns',
    counter: 'run_ns',
    unit: 'share',
    width: 78,
    rank: 1,
    help: 'Time on a CPU. %CPU: 100 = one CPU. %host: 100 = all CPUs.',
  },
  {
    id: 'user',
    title: 'user',
    explains: 'user_ns',
    counter: 'user_ns',
    unit: 'share',
    width: 58,
    rank: 6,
    help: 'Run time in user mode, in the unit of utilization.',
  },
  {
    id: 'system',
    title: 'system',
    explains: 'system_ns',
    counter: 'system_ns',
    unit: 'share',
    width: 62,
    rank: 7,
    help: 'Run time in kernel mode, in the unit of utilization.',
  },
  {
    id: 'ready',
    title: 'ready %',
    explains: 'run_delay_ns',
    counter: 'run_delay_ns',
    unit: 'share',
    width: 66,
    rank: 2,
    help: 'Runnable, but waiting for a CPU; percent of the interval, summed over threads.',
  },
  {
    id: 'blocked',
    title: 'blocked %',
    explains: 'blocked_ns',
    counter: 'blocked_ns',
    unit: 'share',
    width: 78,
    rank: 10,
    help: 'Neither running nor runnable; percent of the interval, summed over threads.',
  },
  {
    id: 'wait',
    title: 'waits for',
    explains: 'wait_reason',
    unit: 'text',
    width: 130,
    rank: 8,
    help: 'The wait reason with the largest part of the blocked time.',
  },
  {
    id: 'longest',
    title: 'max delay',
    explains: 'longest_run_delay_ns',
    counter: 'longest_run_delay_ns',
    unit: 'ns',
    width: 78,
    rank: 11,
    help: 'The longest single wait for a CPU within the interval.',
  },
  {
    id: 'vcsw',
    title: 'vcsw/s',
    explains: 'voluntary_switches',
    counter: 'voluntary_switches',
    unit: 'per_s',
    width: 66,
    rank: 12,
    help: 'Voluntary switches a second: it left the CPU to wait.',
  },
  {
    id: 'icsw',
    title: 'icsw/s',
    explains: 'involuntary_switches',
    counter: 'involuntary_switches',
    unit: 'per_s',
    width: 66,
    rank: 13,
    help: 'Involuntary switches a second: it was pushed off the CPU while runnable.',
  },
  {
    id: 'wakeups',
    title: 'wakes/s',
    explains: 'wakeups',
    counter: 'wakeups',
    unit: 'per_s',
    width: 70,
    rank: 17,
    help: 'Wakeups a second.',
  },
  {
    id: 'migrations',
    title: 'migr/s',
    explains: 'migrations',
    counter: 'migrations',
    unit: 'per_s',
    width: 62,
    rank: 18,
    help: 'Moves to another CPU, a second.',
  },
  {
    id: 'threads',
    title: 'threads',
    explains: 'thread_rows',
    counter: 'thread_rows',
    unit: 'plain',
    width: 64,
    rank: 5,
    help: 'Threads that did something in the interval, ended ones included.',
  },
  {
    id: 'state',
    title: 'S',
    explains: 'state',
    unit: 'text',
    width: 26,
    rank: 14,
    help: 'State of a thread at the end of the interval: a letter of proc(5).',
  },
  {
    id: 'nice',
    title: 'nice',
    explains: 'nice',
    counter: 'nice',
    unit: 'plain',
    width: 44,
    rank: 16,
    help: 'Nice value of a thread, -20 to 19.',
  },
  {
    id: 'last_cpu',
    title: 'CPU#',
    explains: 'last_cpu',
    counter: 'last_cpu',
    unit: 'plain',
    width: 48,
    rank: 15,
    help: 'The CPU a thread last ran on.',
  },
  { id: 'uid', title: 'uid', explains: 'uid', unit: 'plain', width: 80, rank: 9, help: 'Real user id of the process.' },
  {
    id: 'container',
    title: 'container',
    explains: 'container',
    unit: 'text',
    width: 150,
    rank: 4,
    help: 'Container or systemd unit, derived from the cgroup.',
  },
  {
    id: 'cmdline',
    title: 'command line',
    explains: 'cmdline',
    unit: 'text',
    width: 260,
    rank: 19,
    help: 'Command line, scrubbed of secrets; only where the agent runs with --cmdline.',
  },
];

/** Whether a source that measures these counters fills the column. */
export function isMeasured(column: GridColumn, measured: readonly string[]): boolean {
  const needs = column.id === 'wait' ? 'wait_reason' : column.counter;
  return needs === undefined || OF_THREADS.has(needs) || measured.includes(needs);
}

/** Columns that only threads have. */
const OF_THREADS = new Set<string>(['nice', 'last_cpu']);

export const COLUMN_BY_ID = new Map(GRID_COLUMNS.map((column) => [column.id, column]));

/** Shown unless the user chose others; where rows are threads, the process of each too. */
export function usualColumns(rowsAreThreads: boolean): string[] {
  return rowsAreThreads ? ['name', 'process', ...USUAL.slice(1).filter((id) => id !== 'threads')] : USUAL;
}

const USUAL = [
  'name',
  'pid',
  'cpu',
  'user',
  'system',
  'ready',
  'blocked',
  'wait',
  'longest',
  'vcsw',
  'icsw',
  'threads',
  'state',
  'uid',
  'container',
];

/** Columns whose values a view carries as numbers, with their place. */
export const NUMBER_COLUMNS = GRID_COLUMNS.filter((column) => column.unit !== 'text');
export const NUMBER_AT = new Map(NUMBER_COLUMNS.map((column, at) => [column.id, at]));
export const NUMBERS = NUMBER_COLUMNS.length;

/** Columns whose values a view carries as text. */
export const TEXT_COLUMNS = GRID_COLUMNS.filter((column) => column.unit === 'text');
export const TEXT_AT = new Map(TEXT_COLUMNS.map((column, at) => [column.id, at]));
export const TEXTS = TEXT_COLUMNS.length;
