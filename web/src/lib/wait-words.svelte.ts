// What a wait reason means. In: the receiver's table, which its answer to /session has. Out: words for a name such as `futex`.
// Why: people read words, files and queries keep names. The table is the receiver's, so it is not weight of the page.
import { visible } from './format';

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
