// What is stored of a host, for a view whose own answer does not have it. In: the host, the view's range. Out: the first and last data; a
// range that no link names becomes the newest hour of them. Why: an hour of which most was before the first data shows little.
import { ask, hostPath, type Series } from './api';
import { LatestAnswer } from './latest-answer.svelte';
import { receiver } from './receiver.svelte';
import type { Range } from './range.svelte';
import { keptOf } from './shares';

export class StoredSpan {
  private readonly series = new LatestAnswer<Series>();
  readonly kept = $derived(keptOf(this.series.answer?.kept, receiver.limits));

  /** Made while a component is made. */
  constructor(
    host: string,
    private readonly range: Range,
  ) {
    this.series.follow(() => (signal) => ask<Series>(hostPath(host, 'series'), { points: 10 }, signal));
    $effect(() => {
      const { answer } = this.series;
      if (answer) range.fit(answer);
    });
  }

  /** The view may ask: its range is known, or will not be. */
  get isReady(): boolean {
    return !this.range.isOpen || this.series.refusal !== null;
  }
}
