// Lines of the past as percent. In: sums a bucket. Out: percent of one CPU; null where nothing was measured.
import type { Buckets, Limits, Line, Series, Times } from './api';
import { msOf } from './format';
import { inWindowsTerms, LEDGER, MODES, type Part } from './modes';

/** ns in a bucket as percent of the time that was measured in it. */
export function shareOf(values: Line | null | undefined, buckets: Pick<Buckets, 'covered_ns'>, divide = 1): Line {
  return buckets.covered_ns.map((covered, at) => {
    const value = values?.[at];
    return covered > 0 && value !== null && value !== undefined ? (value * 100) / covered / divide : null;
  });
}

/** Begins of the buckets, ms. */
export function beginsOf({ begin_ns, width_ns, covered_ns }: Times): number[] {
  const first = msOf(begin_ns);
  return covered_ns.map((_, at) => first + (at * width_ns) / 1e6);
}

/** Ends of the buckets, seconds: an interval belongs to the bucket in which it ends. */
export function timesOf(buckets: Times): number[] {
  return beginsOf(buckets).map((ms) => (ms + buckets.width_ns / 1e6) / 1000);
}

/** ns per second of single intervals as percent of one CPU. */
export function rateOf(values: Line | null | undefined, buckets: Pick<Buckets, 'covered_ns'>, divide = 1): Line {
  return buckets.covered_ns.map((covered, at) => {
    const value = values?.[at];
    return covered > 0 && value !== null && value !== undefined ? value / 1e7 / divide : null;
  });
}

/** Largest busy share within single intervals of each bucket. */
export function busiest(series: Series, divide = 1): Line {
  return rateOf(series.columns['busy_ns']?.max, series, divide);
}

export interface RunQueue {
  /** Tasks running or ready on all CPUs, mean of each bucket. */
  mean: Line;
  /** The highest mean of a single interval in it. */
  busiest: Line;
  /** The longest queue of any one CPU. */
  longest: Line;
}

/** The run queue over time; null where no source measured it, or where sums of minutes are all there is. */
export function queueOf(series: Pick<Series, 'covered_ns' | 'columns'>): RunQueue | null {
  const queue = series.columns['run_queue_ns'];
  if (!queue) return null;
  const longest = series.columns['run_queue_max']?.max;
  const known = (value: (at: number, covered: number) => number | null | undefined): Line =>
    series.covered_ns.map((covered, at) => (covered > 0 ? (value(at, covered) ?? null) : null));
  const part = (value: number | null | undefined, whole: number): number | null =>
    value === null || value === undefined ? null : value / whole;
  return {
    mean: known((at, covered) => part(queue.sum?.[at], covered)),
    busiest: known((at) => part(queue.max?.[at], 1e9)),
    longest: known((at) => longest?.[at]),
  };
}

/** What a time line stacks: CPU modes; where only sums are kept, the ledger's lines. In the words of the host's system. */
export function partsOf(series: Pick<Series, 'columns' | 'is_windows'>): readonly Part[] {
  const ran = (part: Part): boolean => (series.columns[part.name]?.sum ?? []).some((ns) => (ns ?? 0) > 0);
  const hasModes = series.columns['user_ns'] !== undefined;
  const parts = hasModes ? MODES : LEDGER.filter((part) => part.label !== 'idle');
  const shown = parts.filter((part, at) => at === 0 || part.label === 'system' || ran(part));
  return series.is_windows ? inWindowsTerms(shown) : shown;
}

/** An interval is measured, sent and stored within this time; longer ones are known by `kept`. */
const ON_THE_WAY_MS = 5_000;

/** Reasons of holes in which nothing is missing. */
export const [BEFORE, AFTER, NOT_YET] = ['before the first data', 'after the last data', 'no data yet'];

/** What is stored of a host, as an answer has it. */
export interface Kept {
  firstMs: number;
  lastMs: number;
  /** More is to come. */
  sends: boolean;
}

/** A hole as it is drawn: times are ms. */
export interface Hole {
  begin_ms: number;
  end_ms: number;
  intervals: number;
  reason: string;
  /** The end of the last data, where this hole is after it. */
  lastMs?: number;
}

/** Silent for so long, a host has stopped, if the receiver has not reported how long that is. */
const SILENT_MS = 30_000;

/**
 * Called once for an answer: a host that reported then did not stop because the page is older now. One with long intervals sends
 * nothing between two of them.
 */
export function keptOf(stored: Series['kept'], limits: Limits | null, nowMs = Date.now()): Kept | null {
  if (!stored) return null;
  const lastMs = msOf(stored.last_ns);
  const silentMs = limits
    ? Math.max(limits.silent_ns / 1e6, (limits.silent_intervals * stored.interval_ns) / 1e6)
    : SILENT_MS;
  return { firstMs: msOf(stored.first_ns), lastMs, sends: nowMs - lastMs <= silentMs + ON_THE_WAY_MS };
}

/**
 * Holes with reasons: those that the receiver names, and points without data that no hole explains. At the end of an answer these are
 * of intervals that have not ended yet, even where an answer that was read a little later already has them.
 */
export function holesOf(buckets: Buckets, kept: Kept | null = null, nowMs = Date.now()): Hole[] {
  const begins = beginsOf(buckets);
  const after = buckets.covered_ns.findLastIndex((ns) => ns > 0) + 1;
  const endMs = (begins.at(-1) ?? 0) + buckets.width_ns / 1e6;
  const newestMs = Math.min(kept?.lastMs ?? Infinity, nowMs) - ON_THE_WAY_MS;
  const isOpen = after > 0 && endMs > newestMs;
  const width = buckets.width_ns / 1e6;
  const known = buckets.gaps.map(({ begin_ns, end_ns, intervals, reason }) => ({
    begin_ms: msOf(begin_ns),
    end_ms: msOf(end_ns),
    intervals,
    reason,
  }));
  const holes: Hole[] = [...known];
  const isLast = kept === null || kept.sends ? { reason: NOT_YET } : { reason: AFTER, lastMs: kept.lastMs };
  let open: Hole | null = null;
  buckets.covered_ns.forEach((ns, at) => {
    const [begin, end] = [begins[at]!, begins[at]! + width];
    const isExplained = known.some((gap) => gap.begin_ms < end && gap.end_ms > begin);
    if (ns > 0 || isExplained) open = null;
    else {
      const why =
        kept && end <= kept.firstMs + width
          ? { reason: BEFORE }
          : (isOpen && at >= after) || (kept && begin >= kept.lastMs - width)
            ? isLast
            : { reason: 'no data' };
      if (open && open.reason === why.reason) open.end_ms = end;
      else {
        open = { begin_ms: begin, end_ms: end, intervals: 0, ...why };
        holes.push(open);
      }
    }
  });
  return holes.sort((a, b) => a.begin_ms - b.begin_ms);
}

/** How many CPUs a host has: the time that the ledger accounts for, by measured time; 0: not known. */
export function cpusOf(series: Pick<Series, 'covered_ns' | 'columns'>): number {
  const at = series.covered_ns.findLastIndex((ns) => ns > 0);
  if (at < 0) return 0;
  const capacity = LEDGER.reduce((sum, { name }) => sum + (series.columns[name]?.sum?.[at] ?? 0), 0);
  return Math.round(capacity / series.covered_ns[at]!);
}
