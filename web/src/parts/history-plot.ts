// The lines of History's plots. In: answers of the receiver. Out: what the plot draws.
import type { Line, Lines, Series } from '../lib/api';
import { cssColor, lineColor } from '../lib/colors';
import { busiest, holesOf, type Kept, partsOf, queueOf, shareOf, timesOf } from '../lib/shares';
import type { PlotData, PlotLine } from './plot';

export const NO_PLOT: PlotData = { times: [], lines: [], gaps: [] };

export interface PlotOptions {
  /** CPUs to divide by: 1 shows percent of one CPU. */
  divide?: number;
  /** Start and end of the stored data. */
  kept: Kept | null;
  /** The colours depend on it. */
  isDark: boolean;
}

/** The key by which `/lines` names a task: of a thread the part after its process. */
export function taskKey(key: string): string {
  return key.split('/').at(-1)!;
}

/** CPU use over time: by mode, or of the plotted tasks. */
export function cpuPlot(
  series: Series,
  tasks: { answer: Lines | null; names: ReadonlyMap<string, string> },
  { divide = 1, kept }: PlotOptions,
): PlotData {
  const peak = busiest(series, divide);
  const lines = taskLines(series, tasks, divide);
  return {
    times: timesOf(series),
    lines:
      lines.length > 0
        ? [...lines, peakLine('all CPUs, peak interval', peak)]
        : [...modeAreas(series, divide), peakLine('peak interval', peak)],
    gaps: holesOf(series, kept),
  };
}

function modeAreas(series: Series, divide: number): PlotLine[] {
  return partsOf(series).map((mode) => ({
    label: mode.label,
    color: cssColor(mode.color),
    values: shareOf(series.columns[mode.name]?.sum, series, divide),
    stacked: true,
  }));
}

function peakLine(label: string, values: Line): PlotLine {
  return { label, color: cssColor('--dim'), values, width: 1, dashed: true };
}

/** None while the answer is for another span than the series: both are requested apart. */
function taskLines(
  series: Series,
  { answer, names }: { answer: Lines | null; names: ReadonlyMap<string, string> },
  divide: number,
): PlotLine[] {
  if (!answer || answer.covered_ns.length !== series.covered_ns.length) return [];
  return answer.lines.map((line, nth) => ({
    label: names.get(line.key ?? '') ?? line.name ?? '',
    color: lineColor(nth),
    values: shareOf(line.columns['run_ns'], answer, divide),
    width: 2,
  }));
}

/** The run queue over time; null where it was not measured. */
export function queuePlot(series: Series, { kept }: PlotOptions): PlotData | null {
  const queue = queueOf(series);
  if (!queue) return null;
  return {
    times: timesOf(series),
    lines: [
      { label: 'mean of all CPUs', color: lineColor(0), values: queue.mean, stacked: true },
      { label: 'highest in an interval', color: lineColor(1), values: queue.busiest, width: 1 },
      { label: 'longest of one CPU', color: cssColor('--dim'), values: queue.longest, width: 1, dashed: true },
    ],
    gaps: holesOf(series, kept),
  };
}
