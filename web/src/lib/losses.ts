// What the agent could not measure. In: a host's summary. Out: counts with their names, none for what did not happen.
import type { Summary } from './api';

/** Cumulative since the agent's start, in the order of weight. */
const OF_AGENT: readonly [column: string, label: string][] = [
  ['exits_lost', 'exits lost'],
  ['sched_missed_switches', 'switches missed'],
  ['sched_untracked', 'threads untracked'],
  ['execs_lost', 'calls of programs lost'],
  ['endings_lost', 'endings of threads lost'],
  ['cuts_lost', 'threads not cut at the instant'],
  ['histogram_drops', 'run delays in no histogram'],
  ['intervals_skipped', 'intervals skipped'],
  ['intervals_late', 'intervals late'],
  ['permission_denied', 'reads denied'],
  ['malformed', 'records malformed'],
];

export interface Loss {
  label: string;
  count: number;
}

export interface Losses {
  counted: Loss[];
  /** Threads that are left out now. */
  hidden: number;
}

export function lossesOf(summary: Summary): Losses {
  const number = (column: string): number => {
    const value = summary[column];
    return typeof value === 'number' ? value : 0;
  };
  const counted = OF_AGENT.map(([column, label]) => ({ label, count: number(column) })).filter((loss) => loss.count > 0);
  return { counted, hidden: number('hidden_left_out') };
}
