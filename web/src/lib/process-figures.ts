// What the page of a process shows besides its charts. In: the receiver's answers. Out: sums.
import type { Line, ProcessPage, TaskLine, WaitLine } from './api';
import { count, duration, fixed, isNumber, mean, msOf, NO_DATA } from './format';
import { READY } from './waits';

export const NOT_MEASURED = 'not measured';

/** Sums over the span that is shown. */
export function totalsOf(page: ProcessPage, task: TaskLine): Record<'label' | 'value' | 'help', string>[] {
  const covered = page.covered_ns.reduce((sum, ns) => sum + ns, 0);
  const lived = livedNs(page, task);
  const sum = (column: string): number | null => totalOf(task.columns[column]);
  const time = (column: string): string => {
    const ns = sum(column);
    return ns === null ? NOT_MEASURED : `${duration(ns)} · ${lived > 0 ? fixed((ns * 100) / lived) : NO_DATA} %`;
  };
  const inState = (column: string): string => {
    const ns = sum(column);
    return ns === null
      ? NOT_MEASURED
      : `${duration(ns)} · ${covered > 0 ? mean(ns / covered) : NO_DATA} threads on average`;
  };
  const length = (ns: number | null): string => (ns === null ? NOT_MEASURED : duration(ns));
  const delay = sum('run_delay_ns');
  const [voluntary, involuntary] = [sum('voluntary_switches'), sum('involuntary_switches')];
  const turns = voluntary === null && involuntary === null ? null : (voluntary ?? 0) + (involuntary ?? 0);
  const [longest, ofWakeup] = [largestOf(task.columns['longest_run_delay_ns']), sum('delay_after_wakeup_ns')];
  const meanDelay = delay !== null && turns ? duration(delay / turns) : delay === null ? NOT_MEASURED : NO_DATA;
  const switches = turns === null ? NOT_MEASURED : `${count(voluntary)} to wait, ${count(involuntary)} pushed off`;
  const rows: readonly [label: string, value: string, help: string][] = [
    ['run', time('run_ns'), 'time on a CPU, and its mean share of one CPU over its life in this span'],
    ['user', time('user_ns'), 'run time in user mode'],
    ['system', time('system_ns'), 'run time in kernel mode'],
    ['ready', inState('run_delay_ns'), 'runnable, but waiting for a CPU; summed over threads'],
    ['mean delay', meanDelay, 'mean ready time before each run on a CPU'],
    ['max delay', length(longest), 'the longest single wait for a CPU'],
    [
      'delay after wakeup',
      length(ofWakeup),
      'the part of the ready time that followed a wakeup; the rest followed a preemption',
    ],
    ['blocked', inState('blocked_ns'), 'neither running nor runnable; summed over threads'],
    ['switches', switches, 'times it left the CPU to wait, and times it was pushed off'],
    ['alive', duration(lived), 'measured time in this span in which it was alive'],
    ['measured', duration(covered), 'time in this span for which there is data'],
  ];
  return rows.map(([label, value, help]) => ({ label, value, help }));
}

/** Measured time of the points in which it was alive; its first and last one count in part. */
function livedNs(page: ProcessPage, task: TaskLine): number {
  const width = page.width_ns / 1e6;
  const began = task.began_ns ? msOf(task.began_ns) : -Infinity;
  const ended = task.ended_ns ? msOf(task.ended_ns) : Infinity;
  return page.covered_ns.reduce((sum, ns, at) => {
    const begin = msOf(page.begin_ns) + at * width;
    const part = (Math.min(begin + width, ended) - Math.max(begin, began)) / width;
    return sum + ns * Math.min(Math.max(part, 0), 1);
  }, 0);
}

function largestOf(line: Line | undefined): number | null {
  const known = (line ?? []).filter(isNumber);
  return known.length > 0 ? Math.max(...known) : null;
}

export function totalOf(line: Line | undefined): number | null {
  if (!line) return null;
  return line.reduce<number | null>((sum, value) => (value === null ? sum : (sum ?? 0) + value), null);
}

type WaitPart = Pick<WaitLine, 'reason' | 'total_ns'> & { share: number };

/** Wait reasons, *ready* among them, with their shares of the time of its threads, the longest first. */
export function waitsOf(lines: readonly WaitLine[], { columns }: TaskLine): WaitPart[] {
  const [run, ready, blocked] = ['run_ns', 'run_delay_ns', 'blocked_ns'].map((column) => totalOf(columns[column]) ?? 0);
  const all = run! + ready! + blocked!;
  return [...lines, { reason: READY, total_ns: ready! }]
    .filter((line) => line.total_ns > 0)
    .map(({ reason, total_ns }) => ({ reason, total_ns, share: total_ns / all }))
    .sort((a, b) => b.total_ns - a.total_ns);
}
