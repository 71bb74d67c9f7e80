// The moment that a view shows. In: the address (`at`), steps and clicks. Out: requests to the feed, and the address
// again. Why: Live and History share the rules for moving it, and every moment has a link.
import { untrack } from 'svelte';
import { feed } from '../feed/feed.svelte';
import type { Head } from '../feed/messages';
import { route } from './route.svelte';

/** A moment within the interval that ends at `endNs`: an end belongs to the next interval. */
export function momentBefore(endNs: string): string {
  return (BigInt(endNs) - 1n).toString();
}

export interface MomentOptions {
  /** For views of the past: the moment to show when the address has none; null: not known yet. Absent: the host is shown live. */
  newest?: () => string | null;
  /** Called with the interval that a step came to. */
  onstepped?: (head: Head) => void;
}

export class MomentController {
  /** The moment requested last, empty for live. A step writes its result into the address, and that is no new request. */
  private requested: string | null = null;

  constructor(
    private readonly host: string,
    private readonly options: MomentOptions = {},
  ) {
    // The subscription to the address: links, the browser's buttons and this class itself change it.
    $effect(() => {
      const { at } = this;
      const newest = at === '' ? this.options.newest?.() : null;
      untrack(() => this.follow(at, newest ?? null));
    });
    $effect(() => {
      const stop = feed.listen(({ head, stepped }) => {
        if (stepped) this.stepped(head);
      });
      return () => {
        stop();
        feed.order({ do: 'close' });
      };
    });
  }

  /** ns since the epoch, as in the address; empty: none. */
  get at(): string {
    return route.query['at'] ?? '';
  }

  /** Shows a moment; `push`: the browser's back button returns to the one before. */
  go(ns: string, push = false): void {
    route.set({ at: ns }, push);
  }

  goLive(): void {
    route.set({ at: undefined });
  }

  /** Freezes the interval on screen. It is requested at once: the next live interval may not replace it meanwhile. */
  pause(head: Head): void {
    this.requested = momentBefore(head.end_ns);
    feed.openMoment(this.host, 'at', this.requested);
    this.go(this.requested);
  }

  step(seek: 'before' | 'after'): void {
    feed.step(this.host, seek);
  }

  private follow(at: string, newest: string | null): void {
    const isFirst = this.requested === null;
    if (at !== this.requested) {
      this.requested = at;
      // The view on screen is the previous one.
      if (isFirst && this.options.newest) feed.forget();
      if (at !== '') feed.openMoment(this.host, 'at', at);
      else if (!this.options.newest) feed.openLive(this.host);
    }
    if (newest !== null) this.go(newest);
  }

  private stepped(head: Head): void {
    this.requested = momentBefore(head.end_ns);
    this.go(this.requested);
    this.options.onstepped?.(head);
  }
}
