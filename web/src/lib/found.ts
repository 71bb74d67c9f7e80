// Results of a search over all stored time. In: a row of the receiver's answer. Out: the place that it leads to. Why:
// "when did it run?" is asked by name, and the answer is a place in History.
import type { Found } from './api';
import { msOf } from './format';
import { href } from './route.svelte';

/** Space on both sides of its life, so that it is seen to begin and end. */
const AROUND = 0.05;
const LEAST_MS = 2_000;

/** When it was first and last active, ms; null: not known. */
export function lifeOf({ first_ns: first, last_ns: last }: Found): [number, number] | null {
  return first && last ? [msOf(first), msOf(last)] : null;
}

/** History over the life of a found group, with only its rows in the table. */
export function placeOf(row: Found, keep: Record<string, string | undefined>): string {
  const life = lifeOf(row);
  const space = life ? Math.max((life[1] - life[0]) * AROUND, LEAST_MS) : 0;
  const span = life ? { since: String(Math.floor(life[0] - space)), until: String(Math.ceil(life[1] + space)) } : {};
  const by = row.kind === 'name' ? 'process' : 'program';
  return href({ view: 'history', host: row.host_id, query: { ...keep, ...span, by, in: `${row.kind}:${row.name}` } });
}
