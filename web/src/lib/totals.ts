// Sums of a process's lines. In: columns by bucket. Out: totals; null is no data, which is not zero.
import type { Line, WaitLine } from './api';

export function totalOf(line: Line | undefined): number | null {
  if (!line) return null;
  return line.reduce<number | null>((sum, value) => (value === null ? sum : (sum ?? 0) + value), null);
}

export interface Wait {
  reason: string;
  ns: number;
  share: number;
}

/** Wait reasons with their share of all, the longest first. */
export function waitsOf(lines: readonly WaitLine[]): Wait[] {
  const all = lines.reduce((sum, line) => sum + line.total_ns, 0);
  return lines
    .filter((line) => line.total_ns > 0)
    .map((line) => ({ reason: line.reason, ns: line.total_ns, share: line.total_ns / all }))
    .sort((a, b) => b.ns - a.ns);
}
