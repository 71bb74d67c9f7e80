// What the agent could not measure. In: a host's summary. Out: counts with their names, none for what did not happen.
import { numberOf, type Summary } from './api';

/** Cumulative since the agent's start, in the order of weight. */
const OF_AGENT: readonly [column: string, one: string, several: string][] = [
  ['exits_lost', 'exit lost', 'exits lost'],
  ['sched_missed_switches', 'switch missed', 'switches missed'],
  ['wakeups_unknown', 'wakeup at an unknown time', 'wakeups at an unknown time'],
  ['sched_untracked', 'thread untracked', 'threads untracked'],
  ['execs_lost', 'exec event lost', 'exec events lost'],
  ['endings_lost', 'thread exit lost', 'thread exits lost'],
  ['cuts_lost', 'running thread not split at the interval end', 'running threads not split at the interval end'],
  ['histogram_drops', 'run delay missing in the histogram', 'run delays missing in the histogram'],
  ['intervals_skipped', 'interval skipped', 'intervals skipped'],
  ['intervals_late', 'interval late', 'intervals late'],
  ['permission_denied', 'read denied', 'reads denied'],
  ['malformed', 'record malformed', 'records malformed'],
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
  const number = (column: string): number => numberOf(summary, column) ?? 0;
  const counted = OF_AGENT.map(([column, one, several]) => ({
    label: number(column) === 1 ? one : several,
    count: number(column),
  }));
  return { counted: counted.filter((loss) => loss.count > 0), hidden: number('hidden_left_out') };
}
