// Two spans against each other. In: the sums of both. Out: rows by change, largest first, in percent of one CPU.
import type { Sums } from './api';
import { numbers, texts } from './table';

export interface Change {
  name: string;
  /** Null: the span holds no data at all. Zero: it did not run. */
  before: number | null;
  after: number | null;
  change: number | null;
}

export function compare(before: Sums, after: Sums): Change[] {
  const [first, second] = [sharesOf(before), sharesOf(after)];
  const names = new Set([...(first?.keys() ?? []), ...(second?.keys() ?? [])]);
  const rows = Array.from(names, (name) => {
    const was = first === null ? null : (first.get(name) ?? 0);
    const is = second === null ? null : (second.get(name) ?? 0);
    return { name, before: was, after: is, change: was === null || is === null ? null : is - was };
  });
  // Where one span holds no data, what is known of the other says what matters.
  const weight = (row: Change): number => Math.abs(row.change ?? row.after ?? row.before ?? 0);
  return rows.sort((a, b) => weight(b) - weight(a) || (a.name < b.name ? -1 : 1));
}

function sharesOf(sums: Sums): Map<string, number> | null {
  if (!(sums.covered_ns > 0)) return null;
  const [name, run] = [texts(sums.processes, 'name'), numbers(sums.processes, 'run_ns')];
  const shares = new Map<string, number>();
  for (let row = 0; row < sums.processes.rows; row += 1) {
    const ns = run(row);
    if (Number.isFinite(ns)) shares.set(name(row), (shares.get(name(row)) ?? 0) + (ns * 100) / sums.covered_ns);
  }
  return shares;
}
