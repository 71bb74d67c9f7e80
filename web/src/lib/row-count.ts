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
  isSearched: boolean;
  hidesIdle: boolean;
  /** Of the interval; undefined: not known. */
  processes: number | undefined;
  threads: number | undefined;
}

/** Tasks that were alive at the end, less rows; negative: so many rows are of tasks that ended. */
function missingOf({ layout, tasks, isSearched, hidesIdle, processes, threads }: Counted): number {
  if (isSearched || hidesIdle) return 0;
  const all = layout === 'threads' ? threads : layout === 'list' || layout === 'tree' ? processes : undefined;
  return (all ?? tasks) - tasks;
}

/** Idle tasks that have no row. */
export const withoutRow = (of: Counted): number => Math.max(0, missingOf(of));

export function rowCount(of: Counted): string {
  const [one, more] = NOUNS[of.layout] ?? ['group', 'groups'];
  const missing = missingOf(of);
  if (missing < 0) return `${count(of.tasks)} ${more}, ${count(-missing)} ended`;
  if (missing > 0) return `${count(of.tasks)} active of ${count(of.tasks + missing)} ${more}`;
  return `${count(of.tasks)} ${of.tasks === 1 ? one : more}${of.isSearched ? ' found' : ''}`;
}
