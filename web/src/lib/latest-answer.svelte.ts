// The answer to the newest of several requests. In: requests. Out: loading, the answer, or why there is none.
// Why: every view of the past has the same three states, and an older answer must never replace a newer one.
import { untrack } from 'svelte';
import { ask, refusalOf, type Query, type Refusal } from './api';
import { RETRY_MS } from './receiver.svelte';

/** An answer that takes longer than this may never come: nothing waits for it any more. */
const HOPE_MS = 60_000;
/** When each question was asked that has no answer yet. */
const askedMs = new Map<AbortController, number>();

/** Whether any question waits for its answer: the clock must not put a newer one in its place again and again. */
export const isAsking = (): boolean => Array.from(askedMs.values()).some((ms) => performance.now() - ms < HOPE_MS);

export class LatestAnswer<T> {
  answer = $state.raw<T | null>(null);
  refusal = $state.raw<Refusal | null>(null);
  busy = $state(false);
  private controller: AbortController | null = null;

  async ask(question: (signal: AbortSignal) => Promise<T>): Promise<void> {
    this.controller?.abort();
    const mine = new AbortController();
    this.controller = mine;
    this.busy = true;
    askedMs.set(mine, performance.now());
    try {
      const answer = await question(mine.signal);
      if (this.controller !== mine) return;
      this.answer = answer;
      this.refusal = null;
    } catch (error) {
      if (this.controller !== mine) return;
      this.answer = null;
      this.refusal = refusalOf(error);
    } finally {
      askedMs.delete(mine);
    }
    this.busy = false;
  }

  /**
   * Asks again whenever the values that `question` reads change; null: there is nothing to ask. Why before the view is drawn: the
   * answer is on its way meanwhile. Called while a component is made; ends with it. `isEarly`: the answer is that there is nothing yet.
   */
  follow(
    question: () => ((signal: AbortSignal) => Promise<T>) | null,
    delayMs = 0,
    isEarly: (answer: T) => boolean = () => false,
  ): void {
    let last: ((signal: AbortSignal) => Promise<T>) | null = null;
    // The receiver is away, has too many questions, or has nothing yet: the same question again.
    $effect(() => {
      const isAway = this.refusal?.status === 0 || this.refusal?.status === 503;
      if (!isAway && (this.answer === null || !isEarly(this.answer))) return;
      const timer = setTimeout(() => last && void this.ask(last), RETRY_MS);
      return () => clearTimeout(timer);
    });
    $effect.pre(() => {
      const request = question();
      last = request ?? last;
      // From the change on, not only from the request: what is shown answers an older question.
      untrack(() => (this.busy = request !== null || (this.controller !== null && askedMs.has(this.controller))));
      if (!request) return;
      if (delayMs === 0) {
        void untrack(() => this.ask(request));
        return;
      }
      const timer = setTimeout(() => void this.ask(request), delayMs);
      return () => clearTimeout(timer);
    });
  }

  stop(): void {
    this.controller?.abort();
    this.controller = null;
  }
}

/** The newest answer of the API to a question that changes; null: there is nothing to ask. Called while a component is made. */
export function latest<T>(question: () => readonly [path: string, query: Query] | null, delayMs = 0): LatestAnswer<T> {
  const answer = new LatestAnswer<T>();
  answer.follow(() => {
    const asked = question();
    return asked && ((signal) => ask<T>(asked[0], asked[1], signal));
  }, delayMs);
  return answer;
}
