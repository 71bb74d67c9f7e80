// The axis of the run queue. In: its lines. Out: where the axis ends, and the peak that it cuts off. Why: one queue of 4,798 for a
// millisecond made the mean of an hour a flat line.
import type { RunQueue } from './shares';

export interface QueueScale {
  /** Undefined: all of it fits. */
  max: number | undefined;
  /** The highest value that is cut off; null: none is. */
  peak: number | null;
}

/** What is at most this much higher than the p99 of the mean is no outlier. */
const OUTLIER = 8;

function highestOf(values: readonly (number | null)[]): number {
  return values.reduce<number>((most, value) => Math.max(most, value ?? 0), 0);
}

/** The value that 99 % of the points are not above. */
export function p99(values: readonly (number | null)[]): number {
  const known = values.filter((value): value is number => value !== null).sort((a, b) => a - b);
  return known[Math.ceil(known.length * 0.99) - 1] ?? 0;
}

export function queueScale({ mean, busiest, longest }: RunQueue): QueueScale {
  const usual = Math.max(1, p99(mean));
  const peak = Math.max(highestOf(mean), highestOf(busiest), highestOf(longest));
  if (peak <= usual * OUTLIER) return { max: undefined, peak: null };
  return { max: Math.ceil(Math.max(usual * 2, Math.min(p99(busiest), usual * OUTLIER)) * 1.05), peak };
}
