// Facts about the receiver that every view shares. In: its answer to /session, and whether it answers. Out: limits,
// words, one state. Why: command line, exports and page must draw the line at the same value, and views of the past have
// no stream whose loss would show it.
import { on, type Limits } from './api';
import { visible } from './format';

/** A question that got no answer is asked again after this time. */
export const RETRY_MS = 4_000;

class Receiver {
  /** At which a mark or a colour changes; null until the receiver has answered. */
  limits = $state.raw<Limits | null>(null);
  /** It does not answer the questions of a view. */
  isLost = $state(false);

  constructor() {
    on.answer = (came) => (this.isLost = !came);
  }
}

export const receiver = new Receiver();

/** Words for a name such as `futex`: people read words, files and queries keep names. */
class WaitWords {
  /** Words by name; without an answer names stay. */
  known = $state.raw<Readonly<Record<string, string>>>({});

  /** `lock` */
  short(name: string): string {
    return this.known[name] ?? visible(name);
  }

  /** `lock (futex)`: the words, and the name. */
  full(name: string): string {
    const words = this.known[name];
    return words ? `${words} (${name})` : visible(name);
  }

  /** A state with its reason: `blocked: lock (futex)` of `blocked: futex`. */
  ofState(text: string): string {
    const [state = '', reason] = text.split(': ', 2);
    return reason === undefined ? visible(state) : `${visible(state)}: ${this.full(reason)}`;
  }
}

export const waitWords = new WaitWords();
