// When a task was there. In: values by point, and how much of each point was measured. Out: whether a point without a value is a
// hole or a time at which the task was not running. Why: no data, zero and not running are three different things.
import type { Line, Times } from './api';
import { beginsOf, type Hole } from './shares';

export const NOT_RUNNING = 'not running';

/** Whether a point was measured and the task was not there. */
export function isAbsent(value: number | null | undefined, coveredNs: number | undefined): boolean {
  return (coveredNs ?? 0) > 0 && (value === null || value === undefined);
}

/** The times at which a task was not running, with words for them. */
export function absencesOf(values: Line | undefined, buckets: Times): Hole[] {
  if (!values) return [];
  const width = buckets.width_ns / 1e6;
  const begins = beginsOf(buckets);
  const first = values.findIndex((value) => value !== null);
  const last = values.findLastIndex((value) => value !== null);
  const found: Hole[] = [];
  let open: Hole | null = null;
  buckets.covered_ns.forEach((covered, at) => {
    if (!isAbsent(values[at], covered)) {
      open = null;
      return;
    }
    const [begin, end] = [begins[at]!, begins[at]! + width];
    if (open) open.end_ms = end;
    else {
      const reason = at < first ? 'not started yet' : first >= 0 && at > last ? 'ended' : NOT_RUNNING;
      open = { begin_ms: begin, end_ms: end, intervals: 0, reason };
      found.push(open);
    }
  });
  return found;
}
