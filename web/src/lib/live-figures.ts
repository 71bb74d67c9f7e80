// What the plot above the grid shows. In: the last minutes of a host and of chosen tasks, the unit. Out: lines, their title, their unit and
// the end of the axis. Colours come from the caller: they are those of the document.
import type { PlotLine } from '../parts/plot';
import { MODES, termed } from './modes';
import { NOT_RUNNING } from './shares';

export interface Colors {
  /** Of a CSS variable. */
  named: (name: string) => string;
  /** Of the nth line. */
  nth: (nth: number) => string;
}

type Values = readonly (number | null)[];

export interface Minutes {
  times: readonly number[];
  modes: Readonly<Record<string, Values>>;
  /** The highest busy share of a single interval, percent of one CPU: a point of the past is the mean of two. */
  peak: Values;
  queue: { mean: Values; longest: Values };
  lines: readonly { key: string; name: string; values: Values }[];
  tasks: readonly unknown[];
}

export interface PlotChoice {
  asQueue: boolean;
  percent: 'cpu' | 'host';
  /** CPUs of the host; 0: not measured. */
  cpus: number;
  /** Chosen tasks. */
  tasks: number;
  /** What measures the host decides on the words for its modes. */
  source?: string;
}

/** The run queue, the chosen tasks beside all CPUs, or all CPUs by mode. */
export function linesOf(from: Minutes, choice: PlotChoice, colors: Colors): PlotLine[] {
  if (choice.asQueue) {
    return [
      { label: 'mean of all CPUs', color: colors.nth(0), values: from.queue.mean, stacked: true },
      { label: 'longest of one CPU', color: colors.named('--dim'), values: from.queue.longest, dashed: true },
    ];
  }
  const divide = choice.percent === 'host' && choice.cpus > 0 ? choice.cpus : 1;
  const scale = (values: Values): Values =>
    divide === 1 ? values : values.map((value) => (value === null ? null : value / divide));
  if (from.tasks.length === 0) {
    const ran = (name: string): boolean => (from.modes[name] ?? []).some((value) => value !== null && value > 0);
    const shown = MODES.filter((mode) => mode.label === 'user' || mode.label === 'system' || ran(mode.name));
    const modes = termed(shown, choice.source ?? '').map((mode) => ({
      label: mode.label,
      color: colors.named(mode.color),
      values: scale(from.modes[mode.name] ?? []),
      stacked: true,
    }));
    const hasPeak = from.peak.some((value) => value !== null);
    const peak = { label: 'peak interval', color: colors.named('--dim'), values: scale(from.peak), dashed: true };
    return hasPeak ? [...modes, peak] : modes;
  }
  const lines = from.lines.map((line, at) => ({
    key: line.key,
    label: line.name,
    color: colors.nth(at),
    values: scale(line.values),
    absent: NOT_RUNNING,
  }));
  const all = { label: 'all CPUs', color: colors.named('--dim'), values: scale(busyOf(from)), dashed: true };
  return [...lines, all];
}

/** All modes together; null where none was measured. */
export function busyOf(from: Pick<Minutes, 'times' | 'modes'>): (number | null)[] {
  return from.times.map((_, at) =>
    MODES.reduce<number | null>((sum, mode) => {
      const value = from.modes[mode.name]?.[at] ?? null;
      return value === null ? sum : (sum ?? 0) + value;
    }, null),
  );
}

export function titleOf({ asQueue, tasks }: PlotChoice): string {
  return asQueue ? 'Run queue' : tasks === 0 ? 'All CPUs by mode' : 'Selection';
}

export function unitOf({ asQueue, percent, cpus, tasks }: PlotChoice, isQueueMeasured: boolean): string {
  if (asQueue) return isQueueMeasured ? 'tasks running or ready' : 'not measured by this source';
  if (tasks === 0 && cpus === 0) return 'this source does not measure the CPUs; a selected process is plotted';
  return percent === 'cpu' ? '%CPU: 100 = one CPU' : '%host: 100 = all CPUs';
}

/** All CPUs: the end of the axis, unless chosen tasks use little. */
export function fullOf({ asQueue, percent, cpus }: PlotChoice): number | undefined {
  if (asQueue || cpus === 0) return undefined;
  return percent === 'cpu' ? cpus * 100 : 100;
}
