// The grid's columns: titles, units, help and widths from the table that terminal and documents share (columns.generated.ts), counters
// from here. Worker, grid, settings and help read this one list; the worker's build leaves out titles, help and widths (vite.config.ts).
import { TASK_COLUMNS, type ScreenColumn } from './columns.generated';

/** Raw counters of a task, in the order in which they are kept. */
export const COUNTERS = TASK_COLUMNS.flatMap((column) =>
  column.format === 'text' || column.id === 'pid' ? [] : [column.source],
);
export type Counter = (typeof COUNTERS)[number];
export const COUNTER = Object.fromEntries(COUNTERS.map((name, at) => [name, at])) as Record<Counter, number>;

export type GridColumn = Omit<ScreenColumn, 'source' | 'align' | 'layout'> &
  Required<ScreenColumn>['layout'] & { counter?: Counter };

function counterOf(source: string | null): { counter?: Counter } {
  const counter = COUNTERS.find((name) => name === source);
  return counter ? { counter } : {};
}

export const GRID_COLUMNS: readonly GridColumn[] = TASK_COLUMNS.map(({ source, layout, ...column }) => ({
  ...{ ...column, ...counterOf(source), ...layout },
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
/** The share of the main wait is shown beside its reason, in no column of its own. */
export const WAIT_SHARE = 'wait_share';
const NUMBER_IDS: readonly string[] = [...NUMBER_COLUMNS.map((column) => column.id), WAIT_SHARE];
export const NUMBER_AT = new Map(NUMBER_IDS.map((id, at) => [id, at]));
export const NUMBERS = NUMBER_IDS.length;

/** Columns whose values a view carries as text. */
export const TEXT_COLUMNS = GRID_COLUMNS.filter((column) => column.format === 'text');
/** The interpreter of a script is shown beside its name, in no column of its own. */
export const INTERPRETER = 'interpreter';
/** So is scheduling that is not the default. */
export const SCHEDULING = 'scheduling';
export const TEXT_IDS: readonly string[] = [...TEXT_COLUMNS.map((column) => column.id), INTERPRETER, SCHEDULING];
export const TEXT_AT = new Map(TEXT_IDS.map((id, at) => [id, at]));
export const TEXTS = TEXT_IDS.length;
