// How many rows a grid has, in words. In: the rows, how they are laid out, how many tasks the interval counted. Out: text. Why: the past
// has no rows of idle threads, and of idle processes only where a list of them was stored; the count says what is missing.
import type { Layout } from '../feed/view';
import { count } from './format';

const NOUNS: Partial<Record<Layout, readonly [string, string]>> = {
  list: ['process', 'processes'],
  tree: ['process', 'processes'],
  threads: ['thread', 'threads'],
};

export interface Counted {
  layout: Layout;
  /** Tasks, or groups of them, that the grid has. */
  tasks: number;
  /** Of these tasks, those that ended, and those alive at the end. */
  ended: number;
  alive: number;
  isSearched: boolean;
  hidesIdle: boolean;
  /** Of the interval; undefined: not known. */
  processes: number | undefined;
  threads: number | undefined;
}

/** Idle tasks that have no row. */
export function withoutRow({ layout, alive, isSearched, hidesIdle, processes, threads }: Counted): number {
  if (isSearched || hidesIdle) return 0;
  const all = layout === 'threads' ? threads : layout === 'list' || layout === 'tree' ? processes : undefined;
  return Math.max(0, (all ?? alive) - alive);
}

export function rowCount(of: Counted): string {
  const [one, more] = NOUNS[of.layout] ?? ['group', 'groups'];
  const missing = withoutRow(of);
  const ended = of.ended > 0 && NOUNS[of.layout] ? `, ${count(of.ended)} ended` : '';
  if (missing > 0) return `${count(of.alive)} active of ${count(of.alive + missing)} ${more}${ended}`;
  return `${count(of.tasks)} ${of.tasks === 1 ? one : more}${of.isSearched ? ' found' : ''}${ended}`;
}
