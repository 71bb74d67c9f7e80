// The page's side of the worker. In: orders of the views. Out: the newest reports as state. Why: one worker, one stream.
import type { Fleet, Limits, Refusal } from '../lib/api';
import { receiver } from '../lib/receiver.svelte';
import type { Head, Link, Order, Report } from './messages';
import type { View } from './view';

type SnapshotReport = Extract<Report, { is: 'snapshot' }>;

/** The receiver's own word for a host (`/fleet`, column `state`): that the receiver answers says nothing about the agent. */
export type Alive = 'reporting' | 'late' | 'silent';

/** Without limits, which the receiver has not sent yet, nothing is late. */
export function aliveOf(ageMs: number, intervalMs: number, limits: Limits | null): Alive {
  if (!limits || ageMs <= Math.max(intervalMs * limits.late_intervals, limits.late_ns / 1e6)) return 'reporting';
  return ageMs <= Math.max(intervalMs * limits.silent_intervals, limits.silent_ns / 1e6) ? 'late' : 'silent';
}

class Feed {
  /** The page's clock, once a second: ages on screen grow without messages. */
  nowMs = $state(Date.now());
  link = $state.raw<Link>({ state: 'connecting' });
  fleet = $state.raw<Fleet | null>(null);
  head = $state.raw<Head | null>(null);
  view = $state.raw<View | null>(null);
  problem = $state.raw<Refusal | null>(null);
  /** How long nothing came of the host that is on screen. */
  get ageMs(): number {
    return Math.max(0, this.nowMs - this.arrivedMs);
  }

  /** Whether its agent reports; the receiver's state is in `link`. */
  get alive(): Alive {
    return aliveOf(this.ageMs, (this.head?.duration_ns ?? 0) / 1e6, receiver.limits);
  }

  /** Texts that views point into. */
  texts: string[] = [];
  /** Page clock when the newest message came; of a host, when its newest interval came to the receiver. */
  arrivedMs = $state(0);
  /** Where a text was found, or how far the search went. */
  private sought = { text: '', of: [] as string[], place: -1, searched: 0 };
  private readonly listeners = new Set<(report: SnapshotReport) => void>();
  /** Whether the view follows the stream. */
  private isLive = false;
  private worker: Worker | null = null;

  constructor() {
    setInterval(() => (this.nowMs = Date.now()), 1000);
  }

  private start(): Worker {
    if (this.worker) return this.worker;
    this.worker = new Worker(new URL('./feed.worker.ts', import.meta.url), { type: 'module', name: 'feed' });
    this.worker.onmessage = (event: MessageEvent<Report>) => this.take(event.data);
    return this.worker;
  }

  private take(report: Report): void {
    switch (report.is) {
      case 'link':
        this.link = report.link;
        return;
      case 'fleet':
        this.fleet = report.fleet;
        this.arrivedMs = Date.now();
        return;
      case 'problem':
        this.problem = report.refusal;
        return;
      case 'view':
        this.show(report.view);
        return;
      case 'snapshot':
        // It was on its way when a moment was requested: the old view stays until the moment comes.
        if (report.live && !this.isLive && !report.view.restart) {
          this.keepTexts(report.view);
          return;
        }
        this.problem = null;
        this.head = report.head;
        this.arrivedMs = Date.now() - report.head.ageMs;
        this.show(report.view);
        for (const listener of this.listeners) listener(report);
    }
  }

  private show(view: View): void {
    this.keepTexts(view);
    this.view = view;
  }

  /** Later views point into them, also where this one is not shown. */
  private keepTexts(view: View): void {
    if (view.restart) this.texts = [];
    for (const text of view.fresh) this.texts.push(text);
  }

  /** The first row with this key; -1: it is not in the view. Each second, over 10,000 rows: whole numbers are compared, not texts. */
  rowOf(view: View, key: string): number {
    const place = key === '' ? -1 : this.placeOf(key);
    return place < 0 ? -1 : view.keys.indexOf(place);
  }

  private placeOf(text: string): number {
    const { texts, sought } = this;
    if (sought.text !== text || sought.of !== texts) this.sought = { text, of: texts, place: -1, searched: 0 };
    const now = this.sought;
    if (now.place < 0) now.place = texts.indexOf(text, now.searched);
    now.searched = texts.length;
    return now.place;
  }

  /** Orders without an effect on screen; the others have methods of their own. */
  order(order: Order): void {
    this.start().postMessage(order);
  }

  /** Each snapshot as it comes; returns how to stop. */
  listen(listener: (report: SnapshotReport) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  openFleet(): void {
    this.forget();
    this.order({ do: 'fleet' });
  }

  openLive(host: string): void {
    this.forget();
    this.isLive = true;
    this.order({ do: 'live', host });
  }

  /** The old view stays until the answer comes. */
  openMoment(host: string, seek: 'at' | 'before' | 'after', ns: string): void {
    this.problem = null;
    this.isLive = false;
    this.order({ do: 'moment', host, seek, ns });
  }

  /** Continues from the view on screen, or from the one being fetched: no press of a key is lost. */
  step(host: string, seek: 'before' | 'after'): void {
    this.problem = null;
    this.isLive = false;
    this.order({ do: 'step', host, seek });
  }

  forget(): void {
    this.head = null;
    this.view = null;
    this.problem = null;
    this.link = { state: 'connecting' };
  }
}

export const feed = new Feed();
