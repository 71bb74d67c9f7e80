// The span of time that a view of the past shows. In: the address. Out: since and until, and how to move them.
import { untrack } from 'svelte';
import { msOf, nsOf } from './format';
import { isAsking, type LatestAnswer } from './latest-answer.svelte';
import { beforeNow, isRelative, LAST_MS, momentOfText } from './moments';
import { route } from './route.svelte';
import type { Span } from './span';

export const SPANS: readonly [number, string][] = [
  [600_000, '10 min'],
  [3_600_000, '1 h'],
  [21_600_000, '6 h'],
  [86_400_000, '24 h'],
  [604_800_000, '7 d'],
];
const SHORTEST_MS = 5_000;
const HOUR_MS = 3_600_000;
/** A span that ends now is read again when it is this much older, but not more often than each 5 s. */
const PARTS_OF_A_SPAN = 360;
const OFTEN_MS = 5_000;
const SELDOM_MS = 60_000;

/** An answer of the receiver to a question without a span. */
interface Fitting {
  since_ns: string;
  until_ns: string;
}

export class Range {
  /** When the view was opened; the end of a span that no link names. */
  private readonly openedMs = Date.now();
  /** The moment of `now` in a link. */
  private nowMs = $state(this.openedMs);
  private fitted = $state.raw<Span | null>(null);

  /** Begin and end, ns since the epoch. */
  readonly since = $derived(nsOf(this.sinceMs));
  readonly until = $derived(nsOf(this.untilMs));

  /** `fits`: without a span in the link the view learns from its first answer which one fits, and calls `fit`. */
  constructor(private readonly fits = false) {
    // A link that is passed on shows the same span tomorrow.
    $effect(() => {
      const { view } = route.place;
      if (view === 'live' || view === 'fleet' || !this.isUnset || this.isOpen) return;
      untrack(() => this.set(this.sinceMs, this.untilMs, false));
    });
    $effect(() => {
      if (!this.isFollowing) return;
      const everyMs = Math.min(Math.max(untrack(() => this.lengthMs) / PARTS_OF_A_SPAN, OFTEN_MS), SELDOM_MS);
      const timer = setInterval(() => {
        // An answer that takes longer than this would never come.
        if (!isAsking()) this.nowMs = Date.now();
      }, everyMs);
      return () => clearInterval(timer);
    });
  }

  /** No link names the span. */
  private get isUnset(): boolean {
    return route.query['until'] === undefined && route.query['since'] === undefined;
  }

  /** Which span fits is not known yet. */
  get isOpen(): boolean {
    return this.fits && this.fitted === null && this.isUnset;
  }

  /** The span moves along with the clock. */
  get isFollowing(): boolean {
    return isRelative(route.query['until']) && route.query['until'] === 'now';
  }

  /** The unreadable part of the link; empty: none. */
  get problem(): string {
    const wrong = (['since', 'until'] as const).find((name) => {
      const text = route.query[name];
      return text !== undefined && momentOfText(text, 0) === null;
    });
    return wrong === undefined ? '' : `${wrong}=${(route.query[wrong] ?? '').slice(0, 40)}`;
  }

  get untilMs(): number {
    const text = route.query['until'];
    return (text === undefined ? null : momentOfText(text, this.nowMs)) ?? this.fitted?.untilMs ?? this.openedMs;
  }

  get sinceMs(): number {
    const text = route.query['since'];
    const known = text === undefined ? (this.fitted?.sinceMs ?? null) : momentOfText(text, this.nowMs);
    const since = known ?? this.untilMs - HOUR_MS;
    // The other way round there is no span.
    return since < this.untilMs ? since : this.untilMs - HOUR_MS;
  }

  get lengthMs(): number {
    return Math.max(this.untilMs - this.sinceMs, 1);
  }

  /** The span of the first answer, which becomes that of the link. */
  fit({ since_ns, until_ns }: Fitting): void {
    if (!this.isOpen) return;
    const [sinceMs, untilMs] = [msOf(since_ns), msOf(until_ns)];
    this.fitted = { sinceMs, untilMs };
    route.set({ since: String(Math.floor(sinceMs)), until: String(Math.ceil(untilMs)) });
  }

  /**
   * Asks for this span; while it is open, for the one that fits, which then needs no second answer. `isEarly`: there is nothing yet.
   * `delayMs`: what is typed may change again. Called while a component is made.
   */
  follow<T extends Fitting>(
    latest: LatestAnswer<T>,
    question: (span: { since?: string; until?: string }) => (signal: AbortSignal) => Promise<T>,
    isEarly: (answer: T) => boolean = () => false,
    delayMs = 0,
  ): void {
    let fitted = '';
    latest.follow(
      () => {
        const { since, until } = this;
        const asked = question(this.isOpen ? {} : { since, until });
        if (fitted === '' || fitted !== `${since}-${until}`) return asked;
        fitted = '';
        return null;
      },
      delayMs,
      isEarly,
    );
    $effect(() => {
      const { answer } = latest;
      if (!answer || !this.isOpen || isEarly(answer)) return;
      fitted = `${answer.since_ns}-${answer.until_ns}`;
      this.fit(answer);
    });
  }

  set(sinceMs: number, untilMs: number, push = true): void {
    const length = Math.min(Math.max(untilMs - sinceMs, SHORTEST_MS), LAST_MS);
    const since = Math.min(Math.max((sinceMs + untilMs - length) / 2, 0), LAST_MS - length);
    route.set({ since: String(Math.round(since)), until: String(Math.round(since + length)) }, push);
  }

  /** The last `ms` before the present end. */
  last(ms: number): void {
    if (this.isFollowing) route.set({ since: beforeNow(ms) }, true);
    else this.set(this.untilMs - ms, this.untilMs);
  }

  /** The same length up to now, moving with the clock. */
  toNow(): void {
    const since = beforeNow(this.lengthMs);
    this.nowMs = Date.now();
    route.set({ since, until: 'now' }, true);
  }

  /** Moves by a share of the span; -0.5 is half a span back. */
  move(share: number): void {
    const by = this.lengthMs * share;
    this.set(this.sinceMs + by, this.untilMs + by);
  }

  zoom(factor: number, aroundMs = (this.sinceMs + this.untilMs) / 2): void {
    this.set(aroundMs - (aroundMs - this.sinceMs) * factor, aroundMs + (this.untilMs - aroundMs) * factor);
  }
}
