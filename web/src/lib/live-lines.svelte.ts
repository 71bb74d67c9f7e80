// The last minutes of a host and of chosen tasks. In: the receiver's memory of them, then each snapshot. Out: lines for a plot.
// Why: a plot that opens shows the past at once and goes on without asking again.
import { feed } from '../feed/feed.svelte';
import type { Head } from '../feed/messages';
import { ask, hostPath, type Lines, type Series } from './api';
import { lineTasksOf } from './charts';
import { MODES } from './modes';
import { msOf, nsOf } from './format';
import { limits } from './limits.svelte';
import { busiest, holesOf, keptOf, queueOf, timesOf, type Hole } from './shares';

/** Points of the past. */
const MOST_POINTS = 720;
/** The store commits twice a second: what it has not yet when the plot opens, it has a little later. */
const ASK_AGAIN_MS = 1_500;
/** What comes live is kept one by one, up to this many. */
const MOST_LIVE = 3_700;
export const MOST_LINES = 8;

export interface LiveLine {
  key: string;
  name: string;
  values: (number | null)[];
}

export class LiveLines {
  times = $state.raw<number[]>([]);
  /** By mode, in percent of one CPU. */
  modes = $state.raw<Record<string, (number | null)[]>>({});
  /** Tasks running or ready: the mean of all CPUs together, and the longest queue of one; null where it is not measured. */
  queue = $state.raw<{ mean: (number | null)[]; longest: (number | null)[] }>({ mean: [], longest: [] });
  /** The highest busy share of a single interval, in percent of one CPU. */
  peak = $state.raw<(number | null)[]>([]);
  lines = $state.raw<LiveLine[]>([]);
  gaps = $state.raw<Hole[]>([]);
  private serial = 0;
  private stop: () => void = () => undefined;

  constructor(
    readonly host: string,
    readonly spanS: number,
    readonly tasks: readonly { key: string; name: string }[],
  ) {}

  /** `untilMs`: a past moment to end at; null: goes on live. */
  start(untilMs: number | null): void {
    this.serial += 1;
    const { head } = feed;
    if (untilMs !== null) {
      void this.fill(untilMs, this.serial);
      return;
    }
    // The interval in the header is the newest point: the past may not have it yet, and would mix it with the one before. Of tasks
    // nothing is known of it.
    const isShown = head !== null && this.tasks.length === 0;
    if (isShown) this.append(head, new Map());
    void this.fill(isShown ? msOf(head.begin_ns) : (head?.end_ms ?? Date.now()), this.serial);
    feed.order({ do: 'watch', keys: this.tasks.map((task) => task.key) });
    this.stop = feed.listen((report) => this.append(report.head, new Map(report.watched)));
  }

  end(): void {
    this.serial += 1;
    this.stop();
  }

  private async fill(until: number, mine: number, isFirst = true): Promise<void> {
    const range = { since: nsOf(until - this.spanS * 1000), until: nsOf(until), points: this.points() };
    const keys = this.tasks.map((task) => task.key);
    try {
      const [series, lines] = await Promise.all([
        ask<Series>(hostPath(this.host, 'series'), range),
        this.tasks.length === 0
          ? null
          : ask<Lines>(hostPath(this.host, 'lines'), { ...range, columns: 'run_ns', ...lineTasksOf(keys) }),
      ]);
      if (mine !== this.serial) return;
      this.put(series, lines, until);
      if (!isFirst || (series.covered_ns.at(-1) ?? 0) > series.width_ns / 2) return;
      await new Promise((done) => setTimeout(done, ASK_AGAIN_MS));
      if (mine === this.serial) await this.fill(until, mine, false);
    } catch {
      // The past is not there (no store, or the host is new): the plot begins now. Live data says if the receiver is lost.
    }
  }

  /** Two intervals to a bucket: with one, those that come a little late would leave holes. */
  private points(): number {
    const intervalS = Math.max((feed.head?.duration_ns ?? 1e9) / 1e9, 0.1);
    return Math.max(2, Math.min(MOST_POINTS, Math.floor(this.spanS / (2 * intervalS))));
  }

  private put(series: Series, lines: Lines | null, until: number): void {
    // A bucket ends with its interval; the live points stand at their ends too. The last one may reach behind what was asked
    // for: there it would hide what comes live.
    const times = timesOf(series).map((time) => Math.min(time, until / 1000));
    const share = (
      values: readonly (number | null)[] | null | undefined,
      covered: readonly number[],
    ): (number | null)[] =>
      covered.map((ns, at) =>
        ns > 0 && values?.[at] !== null && values?.[at] !== undefined ? (values[at] * 100) / ns : null,
      );
    const after = this.times.filter((time) => time > (times.at(-1) ?? 0));
    const kept = this.times.length - after.length;
    const join = (past: (number | null)[], live: (number | null)[] | undefined): (number | null)[] => [
      ...past,
      ...(live ?? after.map(() => null)).slice(live ? kept : 0),
    ];
    const modes: Record<string, (number | null)[]> = {};
    for (const mode of MODES)
      modes[mode.name] = join(share(series.columns[mode.name]?.sum, series.covered_ns), this.modes[mode.name]);
    const none = times.map(() => null);
    this.peak = join(busiest(series), this.peak);
    const queue = queueOf(series) ?? { mean: none, longest: none };
    this.queue = { mean: join(queue.mean, this.queue.mean), longest: join(queue.longest, this.queue.longest) };
    const pasts = new Map(
      (lines?.lines ?? []).map((line) => [line.key, share(line.columns['run_ns'], lines?.covered_ns ?? [])]),
    );
    this.lines = this.tasks.map((task) => {
      const past = pasts.get(task.key.split('/').at(-1)!) ?? none;
      return { ...task, values: join(past, this.lines.find((line) => line.key === task.key)?.values) };
    });
    this.modes = modes;
    const past = holesOf(series, keptOf(series.kept, limits.known));
    // Of what came live, the page knows the holes itself.
    const known = past.map((gap) => ({ ...gap, end_ms: Math.min(gap.end_ms, until) })).filter(lasts);
    this.gaps = [...known, ...this.gaps.filter((gap) => gap.begin_ms >= until)];
    this.times = [...times, ...after];
  }

  private append(head: Head, watched: ReadonlyMap<string, number>): void {
    const time = head.end_ms / 1000;
    if (time <= (this.times.at(-1) ?? 0)) return;
    const oldest = time - this.spanS;
    let drop = this.times.findIndex((at) => at >= oldest);
    if (drop < 0) drop = this.times.length;
    drop = Math.max(drop, this.times.length + 1 - MOST_LIVE);
    // As the receiver finds them: less than half an interval between two cannot be a missing one.
    const durationS = head.duration_ns / 1e9;
    const hole = this.times.length > 0 && time - durationS - this.times.at(-1)! > durationS / 2;
    const push = (values: readonly (number | null)[], value: number | null): (number | null)[] => [
      ...values.slice(drop),
      ...(hole ? [null] : []),
      value,
    ];
    const number = (value: unknown): number | null =>
      typeof value === 'number' && Number.isFinite(value) ? value : null;
    const modes: Record<string, (number | null)[]> = {};
    for (const mode of MODES) {
      const ns = number(head.summary[mode.name]);
      modes[mode.name] = push(
        this.modes[mode.name] ?? this.times.map(() => null),
        ns === null ? null : (ns * 100) / head.duration_ns,
      );
    }
    this.modes = modes;
    const empty = this.times.map(() => null);
    this.peak = push(this.peak.length > 0 ? this.peak : empty, busyIn(modes));
    this.queue = {
      mean: push(this.queue.mean.length > 0 ? this.queue.mean : empty, number(head.summary['run_queue_mean'])),
      longest: push(this.queue.longest.length > 0 ? this.queue.longest : empty, number(head.summary['run_queue_max'])),
    };
    const shown =
      this.lines.length === this.tasks.length
        ? this.lines
        : this.tasks.map((task) => ({ ...task, values: this.times.map(() => null) }));
    this.lines = shown.map((line) => ({ ...line, values: push(line.values, number(watched.get(line.key))) }));
    if (hole) {
      const begin = this.times.at(-1)! * 1000;
      this.gaps = [
        ...this.gaps.filter((gap) => gap.end_ms / 1000 > oldest),
        { begin_ms: begin, end_ms: head.end_ms - head.duration_ns / 1e6, reason: 'nothing arrived' },
      ];
    }
    this.times = [...this.times.slice(drop), ...(hole ? [time - durationS] : []), time];
  }
}

/** All modes of one interval together, in percent of one CPU. */
function busyIn(modes: Readonly<Record<string, readonly (number | null)[]>>): number | null {
  return MODES.reduce<number | null>((sum, mode) => {
    const value = modes[mode.name]?.at(-1) ?? null;
    return value === null ? sum : (sum ?? 0) + value;
  }, null);
}

const lasts = (gap: Hole): boolean => gap.end_ms > gap.begin_ms;
