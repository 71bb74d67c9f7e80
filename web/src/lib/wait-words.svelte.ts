// What a wait reason means. In: the receiver's table, which its answer to /session has. Out: words for a name such as `futex`.
// Why: terminal, command line and page have one table, and it is not weight of the page.
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
}

export const waitWords = new WaitWords();
