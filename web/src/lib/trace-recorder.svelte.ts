// A trace of a host on request. In: a host. Out: the receiver's offers, the progress of the recording or the request, the last trace. Why
// here: the buttons are in the header, the progress below it, and a recording that another window began shows in both.
import { ask, hostPath, post, refusalOf, type StoredTrace, type StoredTraces, type TraceSources } from './api';
import { msOf } from './format';
import { RETRY_MS } from './receiver.svelte';
import { remembered } from './remembered.svelte';

/** Seconds that the button records. */
export const RECORD_SECONDS = 10;
const POLL_MS = 400;
/** A device writes the second after the request too, and then sends the trace. */
const TAKE_LIMIT_MS = 90_000;

export type TraceProgress =
  | { state: 'none' }
  | { state: 'recording'; leftMs: number; events: number; lost: number }
  | { state: 'waiting'; detail: string }
  | { state: 'ready'; trace: string }
  | { state: 'failed'; detail: string };

export class TraceRecorder {
  /** `null`: not answered yet. */
  sources = $state.raw<TraceSources | null>(null);
  progress = $state.raw<TraceProgress>({ state: 'none' });
  /** Of the last hour, as the receiver lists them. */
  private newest = $state.raw<StoredTrace | null>(null);
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isGone = false;
  /** A recording is running, or its trace is being stored. */
  private isFollowing = false;
  /** Recordings up to this one ended before this page was there. */
  private seen: number | null = null;

  constructor(private readonly host: string) {}

  /** The newest trace of the last hour, unless the user closed its line: it is there after the view was left and opened again. */
  get last(): StoredTrace | null {
    return this.newest?.id === remembered.get(this.closed) ? null : this.newest;
  }

  /** Name of the setting with the trace whose line was closed. */
  private get closed(): string {
    return `trace.${this.host}`;
  }

  end(): void {
    this.isGone = true;
    clearTimeout(this.timer);
  }

  async record(): Promise<void> {
    // The receiver counts from its start, and may have been started again.
    this.seen = null;
    await this.order('recording', { seconds: RECORD_SECONDS });
  }

  async stop(): Promise<void> {
    await this.order('recording/stop', {});
  }

  dismiss(): void {
    const { progress, newest } = this;
    if (progress.state === 'none') remembered.set(this.closed, newest?.id);
    if (progress.state === 'ready') {
      remembered.set(this.closed, progress.trace);
      // No line of an older one takes its place.
      this.newest = null;
    }
    this.progress = { state: 'none' };
  }

  /** Asks a flight recorder for the last seconds, and waits for its trace. */
  async take(): Promise<void> {
    this.progress = { state: 'waiting', detail: 'asked the host for its last seconds' };
    try {
      const known = (await this.traces()).map((trace) => trace.id);
      await post(hostPath(this.host, 'traces'));
      this.awaitTrace(new Set(known), Date.now() + TAKE_LIMIT_MS);
    } catch (error) {
      this.fail(error);
      // The receiver may know its offers now.
      this.sources = await this.offered().catch(() => this.sources);
    }
  }

  private async order(path: string, query: Record<string, number>): Promise<void> {
    try {
      this.takeIn(await post<TraceSources>(hostPath(this.host, path), query));
    } catch (error) {
      // Another window was first: its recording is shown.
      if (refusalOf(error).status === 409) await this.follow();
      if (!this.isFollowing) this.fail(error);
    }
  }

  private fail(error: unknown): void {
    this.progress = { state: 'failed', detail: refusalOf(error).detail };
  }

  private offered(): Promise<TraceSources> {
    return ask<TraceSources>(hostPath(this.host, 'recording'));
  }

  /** Asks for the receiver's offers, and follows a recording that is under way. */
  async follow(): Promise<void> {
    try {
      this.takeIn(await this.offered());
    } catch (error) {
      // The receiver is away: the recording continues, unless the receiver itself ended.
      if (refusalOf(error).status === 0) this.followLater(RETRY_MS);
      else if (this.progress.state !== 'none') this.fail(error);
    }
  }

  private followLater(afterMs: number): void {
    clearTimeout(this.timer);
    if (!this.isGone) this.timer = setTimeout(() => void this.follow(), afterMs);
  }

  private takeIn(sources: TraceSources): void {
    if (this.isGone) return;
    if (this.sources === null && (sources.can_record || sources.can_take)) void this.findLast();
    this.sources = sources;
    const own = sources.recording;
    const isOver = own?.state === 'stored' || own?.state === 'failed';
    this.seen ??= own ? own.number - (isOver ? 0 : 1) : 0;
    if (!own || own.number <= this.seen) {
      if (!this.isFollowing) return;
      this.isFollowing = false;
      this.progress = { state: 'failed', detail: 'The receiver was started again; what it recorded is lost.' };
      this.seen = own?.number ?? 0;
      return;
    }
    this.isFollowing = !isOver;
    if (own.state === 'recording')
      this.progress = { state: 'recording', leftMs: own.left_ms, events: own.events, lost: own.lost };
    else if (own.state === 'storing') this.progress = { state: 'waiting', detail: own.detail };
    else {
      this.progress =
        own.state === 'stored' ? { state: 'ready', trace: own.trace ?? '' } : { state: 'failed', detail: own.detail };
      this.seen = own.number;
      return;
    }
    this.followLater(POLL_MS);
  }

  /** Of the last hour, the newest last. */
  private async traces(): Promise<StoredTrace[]> {
    const since = String(BigInt(Date.now() - 3_600_000) * 1_000_000n);
    const answer = await ask<StoredTraces>(hostPath(this.host, 'traces'), { since, limit: 10_000 });
    return [...answer.traces].sort((a, b) => msOf(a.at_ns) - msOf(b.at_ns));
  }

  private async findLast(): Promise<void> {
    const traces = await this.traces().catch(() => []);
    if (!this.isGone) this.newest = traces.at(-1) ?? null;
  }

  private awaitTrace(known: ReadonlySet<string>, untilMs: number): void {
    const poll = async (): Promise<void> => {
      const found = (await this.traces().catch(() => [])).filter((trace) => !known.has(trace.id)).at(-1);
      if (this.isGone || this.progress.state !== 'waiting') return;
      if (found !== undefined) this.progress = { state: 'ready', trace: found.id };
      else if (Date.now() < untilMs) this.awaitTrace(known, untilMs);
      else this.progress = { state: 'failed', detail: 'No trace arrived. History marks it when it comes.' };
    };
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void poll(), POLL_MS);
  }
}
