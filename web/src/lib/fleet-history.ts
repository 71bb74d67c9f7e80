// All hosts over a span. In: the receiver's answer. Out: rows of a heatmap with their figures, and the last night.
import type { FleetHistory } from './api';
import { fixed, isNumber, NO_DATA } from './format';
import { numbers, texts } from './table';

export type SpanSort = 'mean' | 'peak' | 'run_queue' | 'name';
export const SPAN_SORTS: readonly string[] = ['mean', 'peak', 'run_queue', 'name'];

export interface SpanRow {
  id: string;
  name: string;
  /** Percent of all CPUs. */
  values: (number | null)[];
  highest: (number | null)[];
  figures: readonly string[];
}

/** What the figures of a row are; all shares are of the same whole. */
export const SPAN_FIGURES = [
  { id: 'mean', title: 'mean %', help: 'Busy share of all CPUs of the host, mean of the span' },
  { id: 'peak', title: 'peak %', help: 'The highest busy share of a single interval' },
  { id: 'run_queue', title: 'queue/CPU', help: 'Threads running or ready for each CPU, on average' },
] as const;

const percents = (ratios: readonly (number | null)[] | undefined): (number | null)[] =>
  (ratios ?? []).map((ratio) => (ratio === null ? null : ratio * 100));

export function spanRows(answer: FleetHistory): SpanRow[] {
  const table = answer.hosts;
  const [id, name] = [texts(table, 'id'), texts(table, 'hostname')];
  const [mean, peak, queue] = [
    numbers(table, 'busy_ratio'),
    numbers(table, 'peak_ratio'),
    numbers(table, 'run_queue_per_cpu'),
  ];
  const percent = (ratio: number): string => (isNumber(ratio) ? fixed(ratio * 100) : NO_DATA);
  return Array.from({ length: table.rows }, (_, row) => ({
    id: id(row),
    name: name(row).trim() === '' ? id(row) : name(row),
    values: percents(answer.busy_ratio[row]),
    highest: percents(answer.peak_ratio[row]),
    figures: [percent(mean(row)), percent(peak(row)), fixed(queue(row), 2)],
  }));
}

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
