// CPU limits of control groups. In: a snapshot's table of groups. Out: the limit of tasks by the paths of their groups, and the groups
// whose quota is used up. Why: rows below one limit share its counters, so that a sum must count them once.
import type { Snapshot } from '../lib/api';
import { numbers, rowsOf, texts } from '../lib/table';

/** A control group that has a limit on its path; NaN is no data. */
export interface GroupLimit {
  path: string;
  cpus: number;
  /** Path of the group that has the limit, whose counters these are. */
  by: string;
  periods: number;
  throttledPeriods: number;
  throttledNs: number;
}

/** For some tasks: the tightest limit in CPUs, `Infinity` without one; throttled time. NaN: not known. */
export interface TaskLimit {
  cpus: number;
  throttledNs: number;
}

const UNKNOWN: TaskLimit = { cpus: NaN, throttledNs: NaN };
const NONE: TaskLimit = { cpus: Infinity, throttledNs: 0 };

export class Limits {
  private readonly rows = new Map<string, GroupLimit>();
  private readonly others: TaskLimit;

  constructor(snapshot?: Snapshot) {
    const leftOut = snapshot?.summary['cgroups_left_out'] ?? 0;
    this.others = snapshot?.fields.includes('CGROUPS') && leftOut === 0 ? NONE : UNKNOWN;
    const table = snapshot?.cgroups;
    if (!table) return;
    const limits = rowsOf<GroupLimit>(table.rows, {
      path: texts(table, 'cgroup'),
      cpus: numbers(table, 'cpu_limit'),
      by: texts(table, 'limited_by'),
      periods: numbers(table, 'periods'),
      throttledPeriods: numbers(table, 'throttled_periods'),
      throttledNs: numbers(table, 'throttled_ns'),
    });
    for (const limit of limits) this.rows.set(limit.path, limit);
  }

  /** The limit of tasks in one group. */
  of(path: string): TaskLimit {
    return this.rows.get(path) ?? this.others;
  }

  /** The limit of tasks in several groups; each limit counts once. */
  ofAll(paths: Iterable<string>): TaskLimit {
    const found = new Map<string, GroupLimit>();
    let [cpus, isUnknown] = [Infinity, false];
    for (const path of paths) {
      const row = this.rows.get(path);
      if (!row) continue;
      found.set(row.by, row);
      cpus = Math.min(cpus, Number.isNaN(row.cpus) ? Infinity : row.cpus);
      isUnknown ||= Number.isNaN(row.cpus);
    }
    if (found.size === 0) return this.others;
    let throttledNs = NaN;
    for (const row of found.values())
      if (!Number.isNaN(row.throttledNs)) throttledNs = (throttledNs || 0) + row.throttledNs;
    // An unknown limit could be one.
    return { cpus: isUnknown && cpus === Infinity ? NaN : cpus, throttledNs };
  }

  /** A row of each group that has a limit, the most throttled first. */
  limiters(): GroupLimit[] {
    const found = new Map<string, GroupLimit>();
    for (const row of this.rows.values()) if (!Number.isNaN(row.cpus) && !found.has(row.by)) found.set(row.by, row);
    return [...found.values()].sort((a, b) => (b.throttledNs || 0) - (a.throttledNs || 0));
  }
}

/** The groups whose quota was used up in the interval. */
export function usedUp(limiters: readonly GroupLimit[]): GroupLimit[] {
  return limiters.filter((row) => row.throttledPeriods > 0);
}

/** Name of the group that has the limit: the last part of its path, or the first digits of a container's id. */
export function nameOfGroup(path: string): string {
  const last = path.split('/').findLast((part) => part !== '') ?? '/';
  const id = /^(?:[a-z-]+-)?([0-9a-f]{12})[0-9a-f]{52}(?:\.scope)?$/.exec(last);
  return id?.[1] ?? last;
}

/** Share of its periods in which the quota was used up. */
export function shareOfPeriods({ periods, throttledPeriods }: GroupLimit): number {
  return periods > 0 ? throttledPeriods / periods : NaN;
}
