// All hosts over a span. In: rows of the receiver's heatmap. Out: their figures, and the last night.
import type { HeatmapRow } from './api';
import { fixed } from './format';

/** What the figures of a row are, all shares of the same whole. */
export const SPAN_FIGURES = [
  {
    ...{ id: 'mean', title: 'mean %', help: 'Busy share of all CPUs of the host, mean of the span' },
    text: ({ mean }: HeatmapRow): string => fixed(mean),
  },
  {
    ...{ id: 'peak', title: 'peak %', help: 'The highest busy share of a single interval' },
    text: ({ max }: HeatmapRow): string => fixed(max),
  },
  {
    ...{ id: 'run_queue', title: 'queue/CPU', help: 'Threads running or ready for each CPU, on average' },
    text: ({ run_queue_per_cpu: queue }: HeatmapRow): string => fixed(queue, 2),
  },
];

export const SPAN_SORTS: readonly string[] = [...SPAN_FIGURES.map(({ id }) => id), 'name'];

const [EVENING, MORNING] = [22, 6];

/** From ten in the evening to six in the morning of the browser's zone or UTC; before six that of the night that is not over. */
export function lastNight(nowMs: number, isUtc: boolean): [sinceMs: number, untilMs: number] {
  const at = (days: number, hour: number): number => {
    const date = new Date(nowMs);
    return isUtc
      ? Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate() + days, hour)
      : new Date(date.getFullYear(), date.getMonth(), date.getDate() + days, hour).getTime();
  };
  const tonight = at(0, EVENING);
  return nowMs > tonight ? [tonight, nowMs] : [at(-1, EVENING), Math.min(at(0, MORNING), nowMs)];
}
