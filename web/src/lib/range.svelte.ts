// The span of time that a view of the past shows. In: the address. Out: since and until, and how to move them.
import { untrack } from 'svelte';
import { LAST_MS } from './typed-moments';
import { route } from './route.svelte';

export const SPANS: readonly [number, string][] = [
  [600_000, '10 min'],
  [3_600_000, '1 h'],
  [21_600_000, '6 h'],
  [86_400_000, '24 h'],
  [604_800_000, '7 d'],
];
const SHORTEST_MS = 5_000;

export class Range {
  /** When the view was opened; the end of a span that no link names. */
  private readonly openedMs = Date.now();

  constructor() {
    // A link that is passed on shows the same span tomorrow.
    $effect(() => {
      const { view, query } = route.place;
      if (view === 'live' || view === 'fleet' || query['until'] !== undefined) return;
      untrack(() => this.set(this.sinceMs, this.untilMs, false));
    });
  }

  get untilMs(): number {
    return numberOf(route.query['until']) ?? this.openedMs;
  }

  get sinceMs(): number {
    return numberOf(route.query['since']) ?? this.untilMs - 3_600_000;
  }

  get lengthMs(): number {
    return Math.max(this.untilMs - this.sinceMs, 1);
  }

  set(sinceMs: number, untilMs: number, push = true): void {
    const length = Math.min(Math.max(untilMs - sinceMs, SHORTEST_MS), LAST_MS);
    const since = Math.min(Math.max((sinceMs + untilMs - length) / 2, 0), LAST_MS - length);
    route.set({ since: String(Math.round(since)), until: String(Math.round(since + length)) }, push);
  }

  /** The last so many ms before the present end. */
  last(ms: number): void {
    this.set(this.untilMs - ms, this.untilMs);
  }

  /** The same length, up to now. */
  toNow(): void {
    const nowMs = Date.now();
    this.set(nowMs - this.lengthMs, nowMs);
  }

  /** By a share of the span; -0.5 is half a span back. */
  move(share: number): void {
    const by = this.lengthMs * share;
    this.set(this.sinceMs + by, this.untilMs + by);
  }

  zoom(factor: number, aroundMs = (this.sinceMs + this.untilMs) / 2): void {
    this.set(aroundMs - (aroundMs - this.sinceMs) * factor, aroundMs + (this.untilMs - aroundMs) * factor);
  }
}

function numberOf(text: string | undefined): number | null {
  const value = Number(text);
  return text !== undefined && text !== '' && Number.isFinite(value) ? Math.min(Math.max(value, 0), LAST_MS) : null;
}
