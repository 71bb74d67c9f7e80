// The instant of a spike. In: the points of a time line, a place on it. Out: the moment within that point at which most happened.
// Why: a point of a day is minutes long, and a click on its peak asks for the second that made it.
import { ask, hostPath, type Chart, type HostCharts, type Line } from './api';
import { tasksOf } from './charts';
import { msOf, nsOf } from './format';
import type { Span } from './span';

/** Whether anything was measured in each point. */
export const isMeasured = ({ times }: Chart): boolean[] => times.covered_ms.map((ms) => ms > 0);

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

/** Where one of the lines is highest: an interval longer than a point gives several the same value, and the middle of them is returned. */
export function highest({ begin_ms: begins, width_ms: width }: Chart['times'], lines: readonly Line[]): Span | null {
  const most = lines.flat().reduce<number>((max, value) => Math.max(max, value ?? -1), -1);
  const values = lines.find((line) => line.includes(most));
  if (!values) return null;
  const first = values.indexOf(most);
  let last = first;
  while (values[last + 1] === most) last += 1;
  const middle = Math.floor((first + last) / 2);
  const sinceMs = begins[middle];
  return sinceMs === undefined ? null : { sinceMs, untilMs: sinceMs + width };
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
  const of = keys === '' ? { views: 'cpu' } : { views: 'tasks', ...tasksOf(keys.split(',')) };
  const { charts } = await ask<HostCharts>(hostPath(host, 'charts'), { ...question, ...of }, signal);
  const [{ times, body }] = charts as [Chart];
  const lines = body.kind === 'lines' ? body.lines : [];
  // All CPUs are the last line, that of the peaks.
  const own = lines.filter((line) => line.key).map((line) => line.highest);
  return highest(times, keys === '' ? lines.slice(-1).map((line) => line.values) : own);
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
