// A trace on screen. In: its id, the address. Out: the window, its rows, the selection and its sums, and how to change
// them. Why: timeline, tables and details show one window, and its whole state is in the link.
import { ask, type TraceDelays, type TraceHead, type TraceSlice, type TraceSums, type TraceThreads } from '../lib/api';
import { isNumber } from '../lib/format';
import { latest, LatestAnswer } from '../lib/latest-answer.svelte';
import { route } from '../lib/route.svelte';
import type { Area } from './draw';
import { busiestPrograms, chosenOf, rangesOf, rowsOf, type Row } from './rows';
import { Tracks } from './tracks.svelte';
import { around, lengthOf, within, zoomed, type Span } from './window';

/** Threads in the timeline when none was chosen. */
const USUAL_THREADS = 12;
const PAGE = 50;
/** Pairs of programs on screen. */
const PAIRS = 6;
/** The window has been still for this long: the tables follow. */
const STILL_MS = 180;

type ThreadRow = TraceThreads['rows'][number];

const spanOf = (text: string | undefined): Span | null => {
  const match = /^(\d+)-(\d+)$/.exec(text ?? '');
  return match ? { from: Number(match[1]), until: Number(match[2]) } : null;
};
const numbersOf = (text: string | undefined): number[] =>
  (text ?? '').split(',').flatMap((one) => (/^\d+$/.test(one) ? [Number(one)] : []));

export class TraceView {
  readonly part = route.query['part'];
  readonly path: string;
  readonly tracks: Tracks;
  readonly head: LatestAnswer<TraceHead>;
  readonly list = new LatestAnswer<TraceThreads>();
  readonly sums: LatestAnswer<TraceSums>;
  readonly delays: LatestAnswer<TraceDelays>;
  readonly sliced: LatestAnswer<TraceSlice>;
  /** Width of the rows without their names, px. */
  width = $state(0);
  /** Moves with each turn of the wheel; the address follows when it is still. */
  span = $state.raw<Span>({ from: 0, until: 1 });
  private still = $state.raw<Span | null>(null);
  /** Span of the list's answer. */
  listed = $state.raw<Span>({ from: 0, until: 1 });
  private limit = $state(PAGE);
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** The address counts, unless this view wrote it. */
  private written = '';
  /** Chosen threads may be far down in the list. */
  private readonly known = new Map<number, ThreadRow>();

  readonly bounds = $derived.by<Span>(() => {
    const { from_ns: from = 0, until_ns: until = 1 } = this.head.answer ?? {};
    return { from, until };
  });
  readonly cpuText = $derived(route.query['cpus'] ?? '');
  private readonly cpus = $derived.by(() => chosenOf(this.cpuText, this.head.answer?.cpus ?? []));
  readonly sort = $derived(route.query['sort'] ?? 'run');
  readonly filter = $derived(route.query['filter'] ?? '');
  private readonly chosen = $derived(numbersOf(route.query['threads']));
  private readonly shown = $derived.by(() => {
    const rows = this.list.answer?.rows ?? [];
    for (const row of rows) this.known.set(row.thread, row);
    if (this.chosen.length === 0) return rows.slice(0, USUAL_THREADS);
    // Names of threads that are not in the list come with their rows.
    void this.tracks.answer;
    return this.chosen.map((thread) => this.known.get(thread) ?? this.unnamed(thread));
  });
  readonly threads = $derived(this.shown.map((row) => row.thread));
  readonly rows = $derived(rowsOf(this.cpus, this.shown));
  readonly programs = $derived.by(() => busiestPrograms(this.tracks.whole, this.tracks.names));
  readonly area = $derived.by((): Area | null => {
    const times = spanOf(route.query['area']);
    const { acpus, athreads } = route.query;
    const cpus = acpus === undefined ? [] : chosenOf(acpus, this.head.answer?.cpus ?? []);
    return times && { ...times, cpus, threads: numbersOf(athreads) };
  });
  /** The span and rows of the sums. */
  private readonly summed = $derived.by(() => {
    const { area, part } = this;
    const window = area ?? this.still;
    if (!window) return null;
    // Threads alone: their sums are on all CPUs.
    const { acpus: cpus = area ? undefined : this.cpuText || undefined, athreads: threads } = wordsOf(area);
    const filter = threads ? undefined : this.filter || undefined;
    return { from_ns: window.from, until_ns: window.until, part, cpus, threads, filter };
  });
  readonly areaText = $derived.by(() => {
    const { area, cpuText, filter } = this;
    if (area && area.cpus.length === 0 && area.threads.length > 0) return `${area.threads.length} threads`;
    const chosen = area && area.cpus.length > 0 ? rangesOf(area.cpus) : area ? '' : cpuText;
    const cpus = chosen ? `CPUs ${chosen}` : 'all CPUs';
    return filter ? `${cpus}; threads of “${filter}”` : cpus;
  });
  readonly picked = $derived(/^([tc])(\d+)@(\d+)$/.exec(route.query['slice'] ?? ''));
  readonly slice = $derived.by(() => (this.picked ? this.sliced.answer : null));

  /** Made while a component is made. */
  constructor(id: string) {
    const path = `traces/${encodeURIComponent(id)}`;
    this.path = path;
    this.tracks = new Tracks(path, this.part);
    this.head = latest<TraceHead>(() => [path, { part: this.part }]);
    this.list.follow(() => {
      if (!this.still) return null;
      const { still: window, part, sort, filter, limit } = this;
      const query = { from_ns: window.from, until_ns: window.until, part, sort, filter, limit };
      return async (signal) => {
        const answer = await ask<TraceThreads>(`${path}/threads`, query, signal);
        this.listed = window;
        return answer;
      };
    });
    this.sums = latest<TraceSums>(() => this.summed && [`${path}/sums`, this.summed]);
    this.delays = latest<TraceDelays>(() => this.summed && [`${path}/delays`, { ...this.summed, limit: PAIRS }]);
    this.sliced = latest<TraceSlice>(() => {
      const { picked, part } = this;
      if (!picked || !this.head.answer) return null;
      return [`${path}/slice`, { [picked[1] === 't' ? 'thread' : 'cpu']: picked[2], at_ns: picked[3], part }];
    });
    this.follow();
  }

  private follow(): void {
    $effect(() => {
      const text = route.query['window'] ?? '';
      if (!this.head.answer || (this.still && text === this.written)) return;
      this.written = text;
      this.span = within(spanOf(text) ?? this.bounds, this.bounds);
      this.still = this.span;
    });
    $effect(() => {
      const { span, width, bounds, threads } = this;
      if (!this.head.answer || width < 50 || this.cpus.length === 0) return;
      this.tracks.want({ span, width, bounds, cpus: rangesOf(this.cpus), threads: threads.join(',') });
    });
    $effect(() => {
      if (this.head.answer && this.width >= 50) void this.tracks.askWhole(this.bounds, this.width, rangesOf(this.cpus));
    });
    $effect(() => () => {
      this.tracks.stop();
      clearTimeout(this.timer);
    });
  }

  private unnamed(thread: number): ThreadRow {
    const unknown = { name: `thread ${thread}`, program: '', tid: null, pid: null, is_kernel: false };
    return { ...({} as ThreadRow), ...(this.tracks.names.get(thread) ?? unknown), thread };
  }

  show(next: Span): void {
    this.span = next;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const { span, bounds } = this;
      this.still = span;
      const isAll = span.from === bounds.from && span.until === bounds.until;
      this.written = isAll ? '' : `${span.from}-${span.until}`;
      route.set({ window: isAll ? undefined : this.written });
    }, STILL_MS);
  }

  zoom(factor: number): void {
    const { span, bounds } = this;
    this.show(zoomed(span, (span.from + span.until) / 2, factor, bounds));
  }

  select(next: Area | null): void {
    route.set({ area: next ? `${next.from}-${next.until}` : undefined, ...wordsOf(next) });
  }

  pick(row: Row, at: number): void {
    route.set({ slice: `${row.kind === 'cpu' ? 'c' : 't'}${row.id}@${at}` });
  }

  unpick(): void {
    route.set({ slice: undefined });
  }

  /** Selects a slice of a thread, and brings it on screen. */
  jump(thread: number, at: number): void {
    const { span, bounds } = this;
    route.set({ slice: `t${thread}@${at}` });
    const half = lengthOf(span) / 2;
    if (at < span.from || at > span.until) this.show(within({ from: at - half, until: at + half }, bounds));
  }

  step(direction: -1 | 1): void {
    const { slice } = this;
    const at = direction < 0 ? slice?.previous_ns : slice?.next_ns;
    if (slice && isNumber(at)) this.jump(slice.who.thread, at);
  }

  /** Brings the selected slice with its wait on screen. */
  zoomToSlice(): false | void {
    const { slice, bounds } = this;
    if (!slice) return false;
    const from = slice.wait?.from_ns ?? slice.from_ns;
    this.show(around({ from, until: slice.from_ns + slice.length_ns }, bounds));
  }

  pin(thread: number): void {
    const now = this.chosen.length > 0 ? this.chosen : this.threads;
    const next = now.includes(thread) ? now.filter((one) => one !== thread) : [...now, thread];
    route.set({ threads: next.length > 0 ? next.join(',') : undefined });
  }

  filterBy(text: string): void {
    route.set({ filter: text || undefined });
  }

  /** Closes the selection; false: there is none. */
  close(): false | void {
    if (!this.picked && !this.area) return false;
    route.set({ slice: undefined, area: undefined, ...wordsOf(null) });
  }

  more(): void {
    this.limit += PAGE;
  }
}

/** The CPUs or, without any, the threads of an area, as in the address. */
function wordsOf(area: Area | null): { acpus: string | undefined; athreads: string | undefined } {
  const { cpus = [], threads = [] } = area ?? {};
  return {
    acpus: cpus.length > 0 ? rangesOf(cpus) : undefined,
    athreads: cpus.length === 0 && threads.length > 0 ? threads.join(',') : undefined,
  };
}
