// All hosts over a span. In: the receiver's answer. Out: rows of a heatmap with their figures, and the last night.
import type { FleetHistory } from './api';
import { called } from './fleet';
import { fixed } from './format';
import { numbers, rowsOf, texts } from './table';

export const SPAN_SORTS: readonly string[] = ['mean', 'peak', 'run_queue', 'name'];

interface SpanRow {
  id: string;
  name: string;
  /** Percent of all CPUs. */
  values: (number | null)[];
  highest: (number | null)[];
  figures: readonly string[];
}

/** Figures of a row; all shares are of the same whole. */
export const SPAN_FIGURES = [
  { id: 'mean', title: 'mean %', help: 'Busy share of all CPUs of the host, mean of the span' },
  { id: 'peak', title: 'peak %', help: 'The highest busy share of a single interval' },
  { id: 'run_queue', title: 'queue/CPU', help: 'Threads running or ready for each CPU, on average' },
] as const;

const percents = (ratios: readonly (number | null)[] | undefined): (number | null)[] =>
  (ratios ?? []).map((ratio) => (ratio === null ? null : ratio * 100));

export function spanRows({ hosts: table, busy_ratio, peak_ratio }: FleetHistory): SpanRow[] {
  const [id, name, queue] = [texts(table, 'id'), texts(table, 'hostname'), numbers(table, 'run_queue_per_cpu')];
  const percent = (column: string, row: number): string => fixed(numbers(table, column)(row) * 100);
  return rowsOf<SpanRow>(table.rows, {
    id,
    name: (row) => called(name(row), id(row)),
    values: (row) => percents(busy_ratio[row]),
    highest: (row) => percents(peak_ratio[row]),
    figures: (row) => [percent('busy_ratio', row), percent('peak_ratio', row), fixed(queue(row), 2)],
  });
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
