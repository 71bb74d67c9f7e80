// What is known of a host's past. In: holes of charts, what is stored. Out: what each hole is; the scale of the run queue.
import type { ChartHole, Limits, Series } from './api';
import { msOf } from './format';

export const NOT_RUNNING = 'not running';

/** An interval is measured, sent and stored within this time; longer ones are known by `kept`. */
const ON_THE_WAY_MS = 5_000;

/** Reasons of holes in which nothing is missing. */
export const [BEFORE, AFTER, NOT_YET] = ['before the first data', 'after the last data', 'no data yet'];

/** The stored times of a host, as an answer has them. */
export interface Kept {
  firstMs: number;
  lastMs: number;
  /** More is to come. */
  sends: boolean;
}

/** A hole as it is drawn. */
export interface Hole extends ChartHole {
  /** The end of the last data, where this hole is after it. */
  lastMs?: number;
}

/** A host that is silent for this long has stopped, if the receiver has not reported a limit. */
const SILENT_MS = 30_000;

/**
 * Called once for an answer: a host that reported then did not stop because the page is older now. One with long
 * intervals sends nothing between two intervals.
 */
export function keptOf(stored: Series['kept'], limits: Limits | null, nowMs = Date.now()): Kept | null {
  if (!stored) return null;
  const lastMs = msOf(stored.last_ns);
  const silentMs = limits
    ? Math.max(limits.silent_ns / 1e6, (limits.silent_intervals * stored.interval_ns) / 1e6)
    : SILENT_MS;
  return { firstMs: msOf(stored.first_ns), lastMs, sends: nowMs - lastMs <= silentMs + ON_THE_WAY_MS };
}

/** Holes of an answer as they are shown: time after the last data of a host that still reports is no hole. */
export function shownHoles(holes: readonly ChartHole[], kept: Kept | null): Hole[] {
  const after = kept && !kept.sends ? { lastMs: kept.lastMs } : { reason: NOT_YET };
  return holes.map((hole) => (hole.reason === AFTER ? { ...hole, ...after } : hole));
}

export interface QueueScale {
  /** Undefined: everything fits. */
  max: number | undefined;
  /** The highest value that is cut off; null: none is. */
  peak: number | null;
}

/** A value up to this many times the p99 of the mean is no outlier. */
const OUTLIER = 8;

/** The value that 99 % of the points are not above. */
export function p99(values: readonly (number | null)[]): number {
  const known = values.filter((value): value is number => value !== null).sort((a, b) => a - b);
  return known[Math.ceil(known.length * 0.99) - 1] ?? 0;
}

/** The mean comes first; the next line, if it is no single one, is drawn for the most part. */
export function queueScale(lines: readonly (readonly (number | null)[])[]): QueueScale {
  const [mean = [], busiest = []] = lines;
  const usual = Math.max(1, p99(mean));
  const peak = lines.flat().reduce<number>((most, value) => Math.max(most, value ?? 0), 0);
  if (peak <= usual * OUTLIER) return { max: undefined, peak: null };
  const drawn = lines.length > 2 ? Math.min(p99(busiest), usual * OUTLIER) : 0;
  return { max: Math.ceil(Math.max(usual * 2, drawn) * 1.05), peak };
}
