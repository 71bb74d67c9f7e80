// A part of the page that is fetched when it is first shown. In: an import. Out: the part, or that it failed. Why: `{#await}` renders
// its content again when its promise is replaced, so a view that changes the address as it opens started twice.
import { untrack } from 'svelte';

export class LazyPart<T> {
  part = $state.raw<T | null>(null);
  failed = $state(false);
  private isLoading = false;

  constructor(private readonly fetch: () => Promise<{ default: T }>) {}

  /** Fetches the part unless it is there or on its way; after a failure it is fetched again. */
  load(): void {
    if (this.isLoading || untrack(() => this.part)) return;
    this.isLoading = true;
    this.failed = false;
    this.fetch()
      .then(
        ({ default: part }) => (this.part = part),
        () => (this.failed = true),
      )
      .finally(() => (this.isLoading = false));
  }
}
