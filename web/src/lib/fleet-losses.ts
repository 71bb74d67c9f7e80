// What never became a row of a host. In: the receiver's counts. Out: words with a rate, only for what happened.
import type { Fleet } from './api';
import { count, rate } from './format';

type Health = Fleet['receiver'];
type Counter = 'rejected' | 'kernel_dropped' | 'store_dropped';

const NAMES: readonly [Counter, string][] = [
  ['rejected', 'datagrams refused'],
  ['kernel_dropped', 'dropped by the kernel'],
  ['store_dropped', 'intervals not stored'],
];
/** Time over which a rate is measured. */
const MINUTE_MS = 60_000;

export interface Loss {
  text: string;
  /** Whether it still happens. */
  isNow: boolean;
}

/** The counts of the last minute. */
export class Losses {
  private past: { ms: number; health: Health }[] = [];

  /** Takes the newest counts; the first ones say nothing of what happens now. */
  take(health: Health, nowMs: number): Loss[] {
    const [first] = this.past;
    // Another start of the receiver counts from zero.
    if (first && NAMES.some(([name]) => (health[name] ?? 0) < (first.health[name] ?? 0))) this.past = [];
    this.past = [...this.past.filter((one) => nowMs - one.ms <= MINUTE_MS), { ms: nowMs, health }];
    const oldest = this.past[0]!;
    const seconds = (nowMs - oldest.ms) / 1000;
    return NAMES.flatMap(([name, what]) => {
      // While the store fails, a banner of its own has this number.
      const many = name === 'store_dropped' && health.store === 'failing' ? 0 : (health[name] ?? 0);
      const grown = many - (oldest.health[name] ?? 0);
      if (many === 0) return [];
      const isNow = grown > 0 && seconds > 0;
      return [{ text: `${count(many)} ${what}${isNow ? ` (${rate(grown / seconds)}/s)` : ''}`, isNow }];
    });
  }
}
