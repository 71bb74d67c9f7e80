// The instant of a spike. In: the points of a time line, a place on it. Out: the moment within that point at which most happened.
// Why: a point of a day is minutes long, and a click on its peak asks for the second that made it.
import { ask, hostPath, type Chart, type HostCharts, type Line, type Lines, type Series, type Times } from './api';
import { lineTasksOf } from './charts';
import { isNumber, msOf, nsOf } from './format';
import { beginsOf } from './shares';
import type { Span } from './span';

/** Whether any line has a value in each point. */
export function isMeasured({ times, body }: Chart): boolean[] {
  const lines = body.kind === 'lines' ? body.lines : [];
  return times.begin_ms.map((_, nth) => lines.some((line) => isNumber(line.values[nth])));
}

/** The point that is drawn nearest to a time; null: there is none, or nothing was measured in it. */
export function pieceAt(chart: Chart, ms: number): Span | null {
  const { begin_ms: begins, width_ms: width } = chart.times;
  const [first] = begins;
  if (first === undefined || width <= 0) return null;
  // A point is drawn where its time ends.
  const nth = Math.max(0, Math.min(begins.length - 1, Math.round((ms - first) / width) - 1));
  const sinceMs = begins[nth]!;
  return isMeasured(chart)[nth] ? { sinceMs, untilMs: sinceMs + width } : null;
}

/** The peak of the values: an interval longer than a point gives several points the same value, and their middle is
 * returned. */
export function highest(buckets: Times, values: Line): Span | null {
  const most = values.reduce<number>((max, value) => Math.max(max, value ?? -1), -1);
  if (most < 0) return null;
  const first = values.indexOf(most);
  let last = first;
  while (values[last + 1] === most) last += 1;
  const middle = Math.floor((first + last) / 2);
  const sinceMs = beginsOf(buckets)[middle];
  return sinceMs === undefined ? null : { sinceMs, untilMs: sinceMs + buckets.width_ns / 1e6 };
}

/** The highest of several lines at each point. */
export function envelope(lines: readonly Line[]): Line {
  const [first = []] = lines;
  return first.map((_, at) =>
    lines.reduce<number | null>((max, line) => {
      const value = line[at] ?? null;
      return value === null ? max : Math.max(max ?? value, value);
    }, null),
  );
}

/** Rounds of zooming in: two are enough for a year. */
const MOST_ROUNDS = 4;
const MOST_POINTS = 4000;

/** The middle of the interval with the highest use within a piece. `read` returns the highest value at each of this many
 * points of a piece. */
export async function findPeak(
  piece: Span,
  intervalMs: number,
  read: (piece: Span, points: number) => Promise<Span | null>,
): Promise<number> {
  let { sinceMs, untilMs } = piece;
  for (let round = 0; round < MOST_ROUNDS && untilMs - sinceMs > intervalMs; round += 1) {
    // Two points an interval: with fewer, two intervals could share one and the wrong one be returned.
    const points = Math.max(2, Math.min(MOST_POINTS, Math.ceil(((untilMs - sinceMs) / intervalMs) * 2)));
    const found = await read({ sinceMs, untilMs }, points);
    if (!found) break;
    ({ sinceMs, untilMs } = found);
  }
  return (sinceMs + untilMs) / 2;
}

/** The highest point of a piece: of the tasks whose keys are given, separated by commas, or of all CPUs. */
export async function peakIn(
  host: string,
  keys: string,
  piece: Span,
  points: number,
  signal: AbortSignal,
): Promise<Span | null> {
  const question = { since: nsOf(piece.sinceMs), until: nsOf(piece.untilMs), points };
  if (keys === '') {
    const found = await ask<Series>(hostPath(host, 'series'), { ...question, columns: 'busy_ns' }, signal);
    return highest(found, found.columns['busy_ns']?.max ?? []);
  }
  const query = { ...question, columns: 'run_ns', ...lineTasksOf(keys.split(',')) };
  const found = await ask<Lines>(hostPath(host, 'lines'), query, signal);
  return highest(found, envelope(found.lines.map((line) => line.max_run_ns_per_s ?? [])));
}

/** The newest moment with data in the first chart; null: it has none. */
export function newestMoment({ charts: [chart], kept }: Pick<HostCharts, 'charts' | 'kept'>): string | null {
  const last = chart ? isMeasured(chart).lastIndexOf(true) : -1;
  if (!chart || last < 0) return null;
  const endMs = chart.times.begin_ms[last]! + chart.times.width_ms;
  const storedNs = kept?.last_ns;
  // The last point may reach beyond the stored data.
  return storedNs && msOf(storedNs) < endMs ? (BigInt(storedNs) - 1n).toString() : nsOf(endMs - 1);
}
