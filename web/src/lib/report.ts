// Who used the CPU in a span. In: rows of the receiver's report. Out: groupings, orders, and names of rows. Why: table,
// plot and links name groups alike.
import type { ReportRow } from './api';
import { count, isNumber, nameText, visible } from './format';

/** Groupings of rows: as in addresses, in the API, and in words for one and for several. */
export const GROUPINGS = [
  ['program', 'Programs', 'program'],
  ['process', 'Processes', 'process'],
  ['thread', 'Threads', 'thread'],
  ['user', 'Users', 'user'],
  ['service', 'Services', 'service'],
  ['container', 'Containers', 'container'],
  ['cgroup', 'cgroups', 'cgroup'],
] as const;
export type Grouping = (typeof GROUPINGS)[number][0];

/** The grid's layouts, as far as a report has the same rows. */
const OF_LAYOUT: Readonly<Record<string, Grouping>> = { list: 'process', tree: 'process', threads: 'thread' };

export function groupingOf(by: string | undefined): Grouping {
  const found = GROUPINGS.find(([id]) => id === by)?.[0];
  return found ?? OF_LAYOUT[by ?? ''] ?? 'program';
}

export const SORTS = ['cpu', 'peak', 'ready', 'blocked', 'switches', 'first', 'last', 'change'] as const;
export type ReportSort = (typeof SORTS)[number];

/** The grid's columns, as far as a report has an order by them. */
const OF_COLUMN: Readonly<Record<string, ReportSort>> = { vcsw: 'switches', icsw: 'switches', longest: 'ready' };

/** Most (of times: the newest) always comes first, because a report leaves out the least. */
export function sortOf(sort: string | undefined, compares: boolean): ReportSort {
  const word = (sort ?? '').replace(/^-/, '');
  const found = SORTS.find((id) => id === word) ?? OF_COLUMN[word];
  if (found === undefined || (found === 'change' && !compares)) return compares ? 'change' : 'cpu';
  return found;
}

/** `PID-START` of its process; empty: a row is no process or thread. */
export function processOf({ pid, process_start_ns: start }: ReportRow): string {
  return isNumber(pid) && start ? `${pid}-${start}` : '';
}

/** Which row of its grouping it is, as the areas of a chart are named. */
export function rowId(row: ReportRow): string {
  return `${row.kind}:${processOf(row) || row.name}${isNumber(row.tid) ? `/${row.tid}` : ''}`;
}

/** CPUs that its control groups may use; null: no limit, not known, or rows of another kind. */
export function limitOf({ limits }: ReportRow): number | null {
  return limits && typeof limits.limit === 'object' ? limits.limit.millionths / 1e6 : null;
}

/** Share of the limit's periods in which it was used up. */
export function throttledShare({ limits }: ReportRow): number | null {
  const { periods = 0, throttled_periods: used = 0 } = limits?.throttle ?? {};
  return periods > 0 ? used / periods : null;
}

/** Threads that were in a state on average, in the span that is compared with. */
export function meanBefore({ before }: ReportRow, of: 'run_delay_ns' | 'blocked_ns'): number | null {
  const [ns, length] = [before?.[of], before?.duration_ns];
  return isNumber(ns) && isNumber(length) ? ns / length : null;
}

export function switchesOf(row: ReportRow): number | null {
  const [voluntary, involuntary] = [row.voluntary_switches, row.involuntary_switches];
  return isNumber(voluntary) && isNumber(involuntary) ? voluntary + involuntary : null;
}

/** Whether a row is one group, and not the rest. */
export function isGroup(row: ReportRow): boolean {
  return row.kind === 'group' || row.kind === 'short-lived';
}

/** Name of a group on screen. */
export function nameOf(row: ReportRow, by: Grouping): string {
  // `(49000 others)`
  if (row.kind === 'rest') return visible(row.name).replace(/\d+/, (digits) => count(Number(digits)));
  if (row.kind === 'not attributed') return 'not attributed';
  if (by === 'user' && row.name === '0') return 'root';
  return nameText(row.name);
}

/** The group that a row's processes are in, as `within` of the API takes it; empty: a row is no group of processes. */
export function withinOf(row: ReportRow, by: Grouping): string {
  return row.kind === 'group' && by !== 'process' && by !== 'thread' ? `${by}:${row.name}` : '';
}

/** Whether times within a span need their day. */
export function needsDay(sinceMs: number, untilMs: number): boolean {
  return untilMs - sinceMs > 43_200_000;
}
