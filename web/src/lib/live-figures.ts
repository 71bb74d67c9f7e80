// The plot above the grid. In: the last minutes of a host and of chosen tasks, the unit. Out: lines, their title, their
// unit and the end of the axis.
import type { PlotLine } from '../parts/plot';
import type { Line } from './api';
import { cssColor, lineColor } from './colors';
import { PEAK, QUEUE, type LiveLines } from './live-lines.svelte';
import { busyOf, MODES, termed } from './modes';
import { NOT_RUNNING } from './shares';

type Minutes = Pick<LiveLines, 'times' | 'values' | 'tasks'>;

export interface PlotChoice {
  asQueue: boolean;
  percent: 'cpu' | 'host';
  /** CPUs of the host; 0: not measured. */
  cpus: number;
  /** Chosen tasks. */
  tasks: number;
  /** The source of the host's data decides the words for its modes. */
  source?: string;
}

/** The run queue, the chosen tasks beside all CPUs, or all CPUs by mode. */
export function linesOf(from: Minutes, choice: PlotChoice): PlotLine[] {
  const dim = { color: cssColor('dim'), stroke: 'dashed' } as const;
  const of = (name: string): Line => from.values[name] ?? [];
  if (choice.asQueue) {
    return [
      { label: 'mean of all CPUs', color: lineColor(0), values: of(QUEUE.mean), stroke: 'area' as const },
      { label: 'longest of one CPU', values: of(QUEUE.longest), ...dim },
    ];
  }
  const divide = choice.percent === 'host' && choice.cpus > 0 ? choice.cpus : 1;
  const scale = (values: Line): Line =>
    divide === 1 ? values : values.map((value) => (value === null ? null : value / divide));
  if (from.tasks.length === 0) {
    const ran = (name: string): boolean => of(name).some((value) => value !== null && value > 0);
    const shown = MODES.filter((mode) => mode.label === 'user' || mode.label === 'system' || ran(mode.name));
    const modes = termed(shown, choice.source ?? '').map(({ name, label, color }) => ({
      ...{ label, color: cssColor(color), values: scale(of(name)), stroke: 'area' as const },
    }));
    const hasPeak = of(PEAK).some((value) => value !== null);
    return hasPeak ? [...modes, { label: 'peak interval', values: scale(of(PEAK)), ...dim }] : modes;
  }
  const lines = from.tasks.flatMap(({ key, name: label }, nth): PlotLine[] => {
    const values = from.values[key];
    return values
      ? [{ key, label, color: lineColor(nth), values: scale(values), stroke: 'solid', absent: NOT_RUNNING }]
      : [];
  });
  const all = from.times.map((_, at) => busyOf((mode) => of(mode)[at] ?? null));
  return [...lines, { label: 'all CPUs', values: scale(all), ...dim }];
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
