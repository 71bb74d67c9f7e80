// A part of the page that is fetched when it is wanted. In: how to fetch it. Out: the part, or that it did not come. Why: `{#await}`
// shows its content anew when what it awaits is asked for again, and a view that changes the address as it opens began twice.
import { untrack } from 'svelte';

export class Later<T> {
  part = $state.raw<T | null>(null);
  failed = $state(false);
  private isComing = false;

  constructor(private readonly fetch: () => Promise<{ default: T }>) {}

  /** Fetches it, if it is not there or on its way; once it failed, again. */
  want(): void {
    if (this.isComing || untrack(() => this.part)) return;
    this.isComing = true;
    this.failed = false;
    this.fetch()
      .then(
        ({ default: part }) => (this.part = part),
        () => (this.failed = true),
      )
      .finally(() => (this.isComing = false));
  }
}
