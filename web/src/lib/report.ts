// Who used the CPU in a span. In: the receiver's report. Out: rows, groupings and orders. Why: table, plot and links name groups alike.
import type { Line, Report } from './api';
import { count, msOf, nameText, visible } from './format';
import { getter, numbers, texts } from './table';

/** What a row can be: as in addresses, in the API, and in words for one and for several. */
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

/** Most (of times: the newest) comes first always: what a report leaves out is the least. */
export function sortOf(sort: string | undefined, compares: boolean): ReportSort {
  const word = (sort ?? '').replace(/^-/, '');
  const found = SORTS.find((id) => id === word) ?? OF_COLUMN[word];
  if (found === undefined || (found === 'change' && !compares)) return compares ? 'change' : 'cpu';
  return found;
}

export interface ReportRow {
  kind: 'group' | 'short-lived' | 'rest' | 'not attributed';
  name: string;
  pid: number;
  tid: number;
  /** `PID-START` of a process; of a thread that of its process. */
  process: string;
  runNs: number;
  cpuPct: number;
  sharePct: number;
  peakPct: number;
  /** End of the interval with the peak, ns. */
  peakNs: string;
  peakIsExact: boolean;
  delayNs: number;
  ready: number;
  blocked: number;
  switches: number;
  wait: string;
  firstMs: number;
  lastMs: number;
  points: Line;
  beforePct: number;
  changePct: number;
  beforeReady: number;
  beforeBlocked: number;
  /** CPU limit of its control groups, CPUs; NaN: none, or rows of another kind. */
  limitCpus: number;
  throttledNs: number;
  periods: number;
  throttledPeriods: number;
  /** Share of the limit's periods in which it was used up. */
  throttledShare: number;
  pressureNs: number;
}

const keyOf = (pid: number, start: string): string => (start === '' ? '' : `${pid}-${start}`);

/** The rows of a report, those of several groups last. */
export function rowsOf({ rows: table, points }: Report): ReportRow[] {
  const [kind, name, start, wait] = [
    texts(table, 'kind'),
    texts(table, 'name'),
    texts(table, 'start_ns'),
    texts(table, 'wait'),
  ];
  const owner = texts(table, 'process_start_ns');
  const [peakAt, first, last] = [texts(table, 'peak_end_ns'), texts(table, 'first_ns'), texts(table, 'last_ns')];
  const exact = getter(table, 'peak_is_exact');
  const read = (column: string) => numbers(table, column);
  const [pid, tid, run, cpu, share, peak] = [
    read('pid'),
    read('tid'),
    read('run_ns'),
    read('cpu_pct'),
    read('share_pct'),
    read('peak_cpu_pct'),
  ];
  const [delay, ready, blocked, voluntary, involuntary] = [
    read('run_delay_ns'),
    read('ready_mean'),
    read('blocked_mean'),
    read('voluntary_switches'),
    read('involuntary_switches'),
  ];
  const [before, change, beforeDelay, beforeBlocked, beforeLength] = [
    read('before_cpu_pct'),
    read('change_cpu_pct'),
    read('before_run_delay_ns'),
    read('before_blocked_ns'),
    read('before_duration_ns'),
  ];
  const [limit, periods, throttledPeriods, throttled, pressure] = [
    read('cpu_limit'),
    read('periods'),
    read('throttled_periods'),
    read('throttled_ns'),
    read('pressure_some_ns'),
  ];
  return Array.from({ length: table.rows }, (_, row) => ({
    kind: kind(row) as ReportRow['kind'],
    name: name(row),
    pid: pid(row),
    tid: tid(row),
    process: keyOf(pid(row), Number.isNaN(tid(row)) ? start(row) : owner(row)),
    runNs: run(row),
    cpuPct: cpu(row),
    sharePct: share(row),
    peakPct: peak(row),
    peakNs: peakAt(row),
    peakIsExact: exact(row) === 1,
    delayNs: delay(row),
    ready: ready(row),
    blocked: blocked(row),
    switches: voluntary(row) + involuntary(row),
    wait: wait(row),
    firstMs: msOf(first(row)),
    lastMs: msOf(last(row)),
    points: points[row] ?? [],
    beforePct: before(row),
    changePct: change(row),
    beforeReady: beforeDelay(row) / beforeLength(row),
    beforeBlocked: beforeBlocked(row) / beforeLength(row),
    limitCpus: limit(row),
    throttledNs: throttled(row),
    periods: periods(row),
    throttledPeriods: throttledPeriods(row),
    throttledShare: throttledPeriods(row) / periods(row),
    pressureNs: pressure(row),
  }));
}

/** Whether a row is one group, and not what is left over. */
export function isGroup(row: ReportRow): boolean {
  return row.kind === 'group' || row.kind === 'short-lived';
}

/** What a group is called on screen. */
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
