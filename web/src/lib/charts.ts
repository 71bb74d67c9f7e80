// What a saved chart is asked for with. In: what is on screen. Out: parameters of `/charts`; an empty one is not sent.
import type { Query } from './api';

/** The unit, if it is not the usual one. */
export function percentOf(unit: 'cpu' | 'host'): string {
  return unit === 'host' ? 'host' : '';
}

/** Keys of processes, and of threads with their process in front. */
export function tasksOf(keys: readonly string[]): Query {
  return { process: keys.filter((key) => !key.includes('/')).join(','), thread: keys.filter((key) => key.includes('/')).join(',') };
}
