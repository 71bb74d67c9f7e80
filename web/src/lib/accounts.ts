// Where the CPU time of a host went. In: its summary and CPUs. Out: unmeasured parts, in words; a bar a CPU. Why: modes
// that are not measured count as zero, and a CPU without any has no share at all.
import type { CpuModes } from '../feed/messages';
import { numberOf, type Summary } from './api';
import { fixed } from './format';
import { IDLE_MODES, MODES, termed } from './modes';

/** Cumulative since the agent's start, in the order of weight. */
const OF_AGENT: readonly [column: string, one: string, several: string][] = [
  ['exits_lost', 'exit lost', 'exits lost'],
  ['sched_missed_switches', 'switch missed', 'switches missed'],
  ['wakeups_unknown', 'wakeup at an unknown time', 'wakeups at an unknown time'],
  ['sched_untracked', 'thread untracked', 'threads untracked'],
  ['execs_lost', 'exec event lost', 'exec events lost'],
  ['endings_lost', 'thread exit lost', 'thread exits lost'],
  ['cuts_lost', 'running thread not split at the interval end', 'running threads not split at the interval end'],
  ['histogram_drops', 'run delay missing in the histogram', 'run delays missing in the histogram'],
  ['intervals_skipped', 'interval skipped', 'intervals skipped'],
  ['intervals_late', 'interval late', 'intervals late'],
  ['permission_denied', 'read denied', 'reads denied'],
  ['malformed', 'record malformed', 'records malformed'],
];

export interface Losses {
  counted: { label: string; count: number }[];
  /** Threads that are left out now. */
  hidden: number;
}

export function lossesOf(summary: Summary): Losses {
  const number = (column: string): number => numberOf(summary, column) ?? 0;
  const counted = OF_AGENT.map(([column, one, several]) => ({
    label: number(column) === 1 ? one : several,
    count: number(column),
  }));
  return { counted: counted.filter((loss) => loss.count > 0), hidden: number('hidden_left_out') };
}

export interface BarPart {
  label: string;
  color: string;
  /** Where it begins, percent of the bar. */
  from: number;
  /** Percent of the bar. */
  share: number;
}

export interface CpuBar {
  cpu: number;
  /** Percent; NaN: nothing was measured. */
  busy: number;
  parts: BarPart[];
  text: string;
}

/** Parts below this are not named, percent. */
const LEAST_NAMED = 0.05;

/** `length`: of its run queue; null: not measured. `source` decides on the words. */
export function barOf(cpu: CpuModes, length: number | null, source = ''): CpuBar {
  const value = (name: string): number => (Number.isFinite(cpu.modes[name]) ? cpu.modes[name]! : 0);
  const total = [...MODES, ...IDLE_MODES].reduce((sum, mode) => sum + value(mode.name), 0);
  const shareOf = (name: string): number => (total > 0 ? (value(name) * 100) / total : 0);
  let from = 0;
  const parts = termed(MODES, source).map((mode) => {
    const share = shareOf(mode.name);
    const part = { label: mode.label, color: mode.color, from, share };
    from += share;
    return part;
  });
  const iowait = shareOf('iowait_ns');
  const text = [
    ...parts.filter((part) => part.share >= LEAST_NAMED).map((part) => `${part.label} ${fixed(part.share)} %`),
    `iowait ${fixed(iowait)} %`,
    `idle ${fixed(100 - from - iowait)} %`,
    ...(length === null ? [] : [`run queue ${fixed(length)}`]),
  ].join(', ');
  return { cpu: cpu.cpu, busy: total > 0 ? from : NaN, parts, text: total > 0 ? text : 'no data' };
}
