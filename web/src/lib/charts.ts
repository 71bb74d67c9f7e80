// Parameters of a saved chart. In: the view on screen. Out: parameters of `/charts`; an empty one is not sent.
import type { Query } from './api';

/** The unit, if it is not the usual one. */
export function percentOf(unit: 'cpu' | 'host'): string {
  return unit === 'host' ? 'host' : '';
}

/** Keys of processes, and of threads with their process in front. */
export function tasksOf(keys: readonly string[]): Query {
  return {
    process: keys.filter((key) => !key.includes('/')).join(','),
    thread: keys.filter((key) => key.includes('/')).join(','),
  };
}

/** Which export holds the lines of chosen tasks, and what it is asked for: of one process its own rows, of several those of all. */
export function rowsOf(keys: readonly string[]): { kind: 'processes' | 'threads' | 'ledger'; process: string } {
  const owners = new Set(keys.map((key) => key.split('/')[0]!));
  const [only = ''] = owners;
  const kind = keys.some((key) => key.includes('/')) ? 'threads' : keys.length > 0 ? 'processes' : 'ledger';
  return { kind, process: owners.size === 1 ? only.split('-')[0]! : '' };
}
