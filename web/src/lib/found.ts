// What a search over all stored time found. In: the receiver's answer. Out: rows, and where each leads. Why: "when did it run?" is asked
// by name, and the answer is a place in History.
import type { Found } from './api';
import { msOf } from './format';
import { href } from './route.svelte';
import { numbers, texts } from './table';

export interface FoundRow {
  host: string;
  /** A name may be of several hosts, or empty. */
  hostId: string;
  kind: 'name' | 'user' | 'service' | 'container' | 'pod';
  name: string;
  firstMs: number;
  lastMs: number;
  runs: number;
  runNs: number;
  sharePct: number;
}

export function foundRows({ rows: table }: Found): FoundRow[] {
  const [host, hostId, kind, name] = [
    texts(table, 'host'),
    texts(table, 'host_id'),
    texts(table, 'kind'),
    texts(table, 'name'),
  ];
  const [first, last] = [texts(table, 'first_ns'), texts(table, 'last_ns')];
  const [runs, run, share] = [numbers(table, 'processes'), numbers(table, 'run_ns'), numbers(table, 'share_pct')];
  return Array.from({ length: table.rows }, (_, row) => ({
    host: host(row),
    hostId: hostId(row),
    kind: kind(row) as FoundRow['kind'],
    name: name(row),
    firstMs: msOf(first(row)),
    lastMs: msOf(last(row)),
    runs: runs(row),
    runNs: run(row),
    sharePct: share(row),
  }));
}

/** Space on both sides of its life, so that it is seen to begin and end. */
const AROUND = 0.05;
const LEAST_MS = 2_000;

/** History over the life of what was found, with it alone in the table. */
export function placeOf(row: FoundRow, keep: Record<string, string | undefined>): string {
  const space = Math.max((row.lastMs - row.firstMs) * AROUND, LEAST_MS);
  const life = Number.isFinite(space)
    ? { since: String(Math.floor(row.firstMs - space)), until: String(Math.ceil(row.lastMs + space)) }
    : {};
  const by = row.kind === 'name' ? 'process' : 'program';
  return href({ view: 'history', host: row.hostId, query: { ...keep, ...life, by, in: `${row.kind}:${row.name}` } });
}
