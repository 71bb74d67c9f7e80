// The axis of the run queue. In: its lines. Out: where the axis ends, and the peak that it cuts off. Why: one queue of 4,798 for a
// millisecond made the mean of an hour a flat line.

export interface QueueScale {
  /** Undefined: all of it fits. */
  max: number | undefined;
  /** The highest value that is cut off; null: none is. */
  peak: number | null;
}

/** What is at most this much higher than the p99 of the mean is no outlier. */
const OUTLIER = 8;

type Values = readonly (number | null)[];

/** The value that 99 % of the points are not above. */
export function p99(values: Values): number {
  const known = values.filter((value): value is number => value !== null).sort((a, b) => a - b);
  return known[Math.ceil(known.length * 0.99) - 1] ?? 0;
}

/** The mean comes first; the next line, if it is no single one, is drawn for the most part. */
export function queueScale(lines: readonly Values[]): QueueScale {
  const [mean = [], busiest = []] = lines;
  const usual = Math.max(1, p99(mean));
  const peak = lines.flat().reduce<number>((most, value) => Math.max(most, value ?? 0), 0);
  if (peak <= usual * OUTLIER) return { max: undefined, peak: null };
  const drawn = lines.length > 2 ? Math.min(p99(busiest), usual * OUTLIER) : 0;
  return { max: Math.ceil(Math.max(usual * 2, drawn) * 1.05), peak };
}
