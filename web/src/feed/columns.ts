// The grid's columns: titles, units and help from the table that terminal and documents share (columns.generated.ts), widths and
// counters from here. Worker, grid, settings and help read this one list.
import { TASK_COLUMNS, type ScreenColumn } from './columns.generated';

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
  'cpu_limit',
  'throttled_ns',
] as const;
export type Counter = (typeof COUNTERS)[number];
export const COUNTER = Object.fromEntries(COUNTERS.map((name, at) => [name, at])) as Record<Counter, number>;

export interface GridColumn extends Omit<ScreenColumn, 'source' | 'align'> {
  counter?: Counter;
  /** px. */
  width: number;
  /** Smaller comes first where space is short. */
  rank: number;
  /** Not shown unless the user chose it. */
  isSeldom?: boolean;
}

/** Layout, which only this page decides. */
const LAYOUT: Record<(typeof TASK_COLUMNS)[number]['id'], Pick<GridColumn, 'width' | 'rank' | 'isSeldom'>> = {
  name: { width: 200, rank: 0 },
  process: { width: 140, rank: 1.5, isSeldom: true },
  pid: { width: 70, rank: 3 },
  cpu: { width: 78, rank: 1 },
  user: { width: 58, rank: 6 },
  system: { width: 62, rank: 7 },
  ready: { width: 66, rank: 2 },
  blocked: { width: 78, rank: 10 },
  wait: { width: 130, rank: 8 },
  longest: { width: 78, rank: 11 },
  limit: { width: 76, rank: 3.2 },
  throttled: { width: 78, rank: 3.1 },
  vcsw: { width: 66, rank: 12 },
  icsw: { width: 66, rank: 13 },
  wakeups: { width: 70, rank: 17, isSeldom: true },
  migrations: { width: 62, rank: 18, isSeldom: true },
  threads: { width: 64, rank: 5 },
  state: { width: 26, rank: 14 },
  nice: { width: 44, rank: 16, isSeldom: true },
  last_cpu: { width: 48, rank: 15, isSeldom: true },
  uid: { width: 80, rank: 9 },
  container: { width: 150, rank: 4 },
  cmdline: { width: 260, rank: 19, isSeldom: true },
};

function counterOf(source: string | null): { counter?: Counter } {
  const counter = COUNTERS.find((name) => name === source);
  return counter ? { counter } : {};
}

export const GRID_COLUMNS: readonly GridColumn[] = TASK_COLUMNS.map(({ source, ...column }) => ({
  ...{ ...column, ...counterOf(source), ...LAYOUT[column.id] },
}));

/** Whether a source that measures these counters fills the column. */
export function isMeasured(column: GridColumn, measured: readonly string[]): boolean {
  const needs = column.id === 'wait' ? 'wait_reason' : column.counter;
  return needs === undefined || OF_THREADS.has(needs) || measured.includes(needs);
}

/** Counters of control groups, which a task has from its group. */
export const OF_LIMITS = new Set<string>(['cpu_limit', 'throttled_ns']);

/** Columns that only threads have. */
const OF_THREADS = new Set<string>(['nice', 'last_cpu']);

export const COLUMN_BY_ID = new Map(GRID_COLUMNS.map((column) => [column.id, column]));

/** Shown unless the user chose others; where rows are threads, the process of each too. */
export function usualColumns(rowsAreThreads: boolean, hasLimits: boolean): string[] {
  // Where nothing has a limit, these are empty.
  const usual = GRID_COLUMNS.filter(
    ({ isSeldom, counter }) => !isSeldom && (hasLimits || !OF_LIMITS.has(counter ?? '')),
  ).map(({ id }) => id);
  // Only threads have a state: a process would have an empty column.
  return rowsAreThreads
    ? ['name', 'process', ...usual.slice(1).filter((id) => id !== 'threads')]
    : usual.filter((id) => id !== 'state');
}

/** Columns whose values a view carries as numbers, with their place. */
export const NUMBER_COLUMNS = GRID_COLUMNS.filter((column) => column.format !== 'text');
export const NUMBER_AT = new Map(NUMBER_COLUMNS.map((column, at) => [column.id, at]));
export const NUMBERS = NUMBER_COLUMNS.length;

/** Columns whose values a view carries as text. */
export const TEXT_COLUMNS = GRID_COLUMNS.filter((column) => column.format === 'text');
/** The interpreter of a script is shown beside its name, in no column of its own. */
export const INTERPRETER = 'interpreter';
export const TEXT_IDS: readonly string[] = [...TEXT_COLUMNS.map((column) => column.id), INTERPRETER];
export const TEXT_AT = new Map(TEXT_IDS.map((id, at) => [id, at]));
export const TEXTS = TEXT_IDS.length;
