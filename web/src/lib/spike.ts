// The instant of a spike. In: the points of a time line, a place on it. Out: the moment within that point at which most happened.
// Why: a point of a day is minutes long, and a click on its peak asks for the second that made it.
import type { Buckets, Line } from './api';

export interface Piece {
  sinceMs: number;
  untilMs: number;
}

/** The point that is drawn nearest to a time; null: there is none, or nothing was measured in it. */
export function pieceAt(buckets: Pick<Buckets, 't_ms' | 'width_ns' | 'covered_ns'>, ms: number): Piece | null {
  const width = buckets.width_ns / 1e6;
  const first = buckets.t_ms[0];
  if (first === undefined || width <= 0) return null;
  // A point is drawn where its time ends.
  const nth = Math.max(0, Math.min(buckets.t_ms.length - 1, Math.round((ms - first) / width) - 1));
  const sinceMs = buckets.t_ms[nth]!;
  return (buckets.covered_ns[nth] ?? 0) > 0 ? { sinceMs, untilMs: sinceMs + width } : null;
}

/** Where the values are highest: an interval longer than a point gives several the same value, and the middle of them is returned. */
export function highest(buckets: Pick<Buckets, 't_ms' | 'width_ns'>, values: Line): Piece | null {
  const most = values.reduce<number>((max, value) => Math.max(max, value ?? -1), -1);
  if (most < 0) return null;
  const first = values.indexOf(most);
  let last = first;
  while (values[last + 1] === most) last += 1;
  const middle = Math.floor((first + last) / 2);
  const sinceMs = buckets.t_ms[middle];
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
