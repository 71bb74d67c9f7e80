// What is odd about a host, in words. In: its row. Out: a short mark, a sentence with a figure, and where it is explained; nothing of a
// healthy host. Why: a mark that a healthy machine has too says nothing.
import type { HostRow } from './fleet';
import { age, count, duration, isNumber, percent } from './format';

export interface HealthMark {
  text: string;
  kind: 'bad' | 'warn' | 'dim';
  /** One sentence for each thing that is odd. */
  help: string;
}

type Odd = Pick<HostRow, 'health' | 'ageNs' | 'unattributed' | 'offsetNs' | 'intervals' | 'incomplete'>;

const silenceOf = (host: Odd): string => age(isNumber(host.ageNs) ? host.ageNs / 1e6 : null);

function lossOf({ incomplete, intervals }: Odd): string {
  return `${count(incomplete)} of ${count(intervals)}`;
}

/** A short text for the table, and a sentence for its tooltip. */
const WORDS: Record<string, (host: Odd) => readonly [string, string]> = {
  silent: (host) => [
    `silent ${silenceOf(host)}`,
    `Nothing arrived for ${silenceOf(host)}: its agent or its network stopped.`,
  ],
  stored: () => ['not reporting', 'Nothing arrived since the receiver started; its past is in the store.'],
  late: (host) => [`late ${silenceOf(host)}`, `Its newest interval is ${silenceOf(host)} old.`],
  loss: (host) => [
    `${lossOf(host)} incomplete`,
    `${lossOf(host)} intervals of the last minute lack snapshots that were lost on the way; their CPU time is complete.`,
  ],
  ledger: (host) => [
    `ledger ${percent(host.unattributed)} open`,
    `${percent(host.unattributed, 2)} of its CPU time is not attributed.`,
  ],
  clock: (host) => [
    `clock ${duration(host.offsetNs)}`,
    `Its clock is ${duration(host.offsetNs)} from the receiver's, which places its data by its own clock.`,
  ],
};

export function healthOf(host: Odd): HealthMark | null {
  const known = host.health.filter((word) => WORDS[word] !== undefined);
  const [first] = known;
  if (first === undefined) return null;
  const words = known.map((word) => WORDS[word]!(host));
  const more = known.length > 1 ? ` +${known.length - 1}` : '';
  return {
    text: words[0]![0] + more,
    kind: first === 'silent' ? 'bad' : first === 'stored' ? 'dim' : 'warn',
    help: words.map(([, sentence]) => sentence).join(' '),
  };
}
