// The last minutes of a host and of chosen tasks. In: the receiver's charts of them, then each snapshot. Out: lines for a plot.
// Why: a plot that opens shows the past at once and goes on without asking again.
import { feed } from '../feed/feed.svelte';
import type { Head } from '../feed/messages';
import { ask, hostPath, type Chart, type HostCharts, type Line } from './api';
import { tasksOf } from './charts';
import { busyOf, MODES } from './modes';
import { msOf, nsOf } from './format';
import { receiver } from './receiver.svelte';
import type { PlottedTask } from './plotted-tasks.svelte';
import { keptOf, shownHoles, type Hole } from './shares';

/** Points of the past. */
const MOST_POINTS = 720;
/** The store commits twice a second: data that it lacks when the plot opens, it has a little later. */
const ASK_AGAIN_MS = 1_500;
/** Most live points that are kept one by one. */
const MOST_LIVE = 3_700;
export const MOST_LINES = 8;

/** Names of values beside those of modes and tasks: the highest busy share of a single interval, and the run queue of all CPUs together
 * and of one. */
export const PEAK = 'peak';
export const QUEUE = { mean: 'run_queue_mean', longest: 'run_queue_max' } as const;

export class LiveLines {
  times = $state.raw<number[]>([]);
  /** By name of a mode or a task in percent of one CPU, for the run queue in tasks; null where it is not measured. */
  values = $state.raw<Readonly<Record<string, Line>>>({});
  gaps = $state.raw<Hole[]>([]);
  private serial = 0;
  private stop: () => void = () => undefined;

  constructor(
    readonly host: string,
    readonly spanS: number,
    readonly tasks: readonly PlottedTask[],
  ) {}

  /** `untilMs`: a past moment to end at; null: continues live. */
  start(untilMs: number | null): void {
    this.serial += 1;
    const { head } = feed;
    if (untilMs !== null) {
      void this.fill(untilMs, this.serial);
      return;
    }
    // The interval in the header is the newest point: the past may not have it yet, and would mix it with the one before.
    // It has no data of tasks.
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
    const tasks = tasksOf(this.tasks.map((task) => task.key));
    const views = `cpu,run-queue${this.tasks.length > 0 ? ',tasks' : ''}`;
    try {
      const past = await ask<HostCharts>(hostPath(this.host, 'charts'), { ...range, views, ...tasks });
      if (mine !== this.serial) return;
      this.put(past, until);
      const { covered_ms: covered, width_ms: width } = past.charts[0]!.times;
      if (!isFirst || (covered.at(-1) ?? 0) > width / 2) return;
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

  private put({ charts: [cpu, runQueue, chosen], ...past }: HostCharts, until: number): void {
    const { begin_ms: begins, width_ms: width } = cpu!.times;
    // A bucket ends with its interval; the live points stand at their ends too. The last one may reach behind what was asked
    // for: there it would hide what comes live.
    const times = begins.map((ms) => Math.min(ms + width, until) / 1000);
    const after = this.times.filter((time) => time > (times.at(-1) ?? 0));
    const kept = this.times.length - after.length;
    const [modes, queue] = [linesOf(cpu), linesOf(runQueue)];
    const pasts = new Map([...modes, ...linesOf(chosen)].map(({ key, values }) => [key, values]));
    const lines: Record<string, Line | undefined> = {
      [PEAK]: modes.at(-1)?.values,
      [QUEUE.mean]: queue[0]?.values,
      [QUEUE.longest]: queue.at(-1)?.values,
    };
    for (const { name } of MODES) lines[name] = pasts.get(name);
    for (const { key } of this.tasks) lines[key] = pasts.get(key.split('/').at(-1)!);
    this.values = byName(lines, (line, name) => [
      ...(line ?? times.map(() => null)),
      ...(this.values[name]?.slice(kept) ?? after.map(() => null)),
    ]);
    const holes = shownHoles(cpu!.holes, keptOf(past.kept, receiver.limits));
    // Of what came live, the page knows the holes itself.
    const known = holes
      .map((gap) => ({ ...gap, end_ms: Math.min(gap.end_ms, until) }))
      .filter((gap) => gap.end_ms > gap.begin_ms);
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
    // The rule of the receiver: less than half an interval between two cannot be a missing one.
    const durationS = head.duration_ns / 1e9;
    const hole = this.times.length > 0 && time - durationS - this.times.at(-1)! > durationS / 2;
    const number = (value: unknown): number | null =>
      typeof value === 'number' && Number.isFinite(value) ? value : null;
    const mode = (name: string): number | null => {
      const ns = number(head.summary[name]);
      return ns === null ? null : (ns * 100) / head.duration_ns;
    };
    const now: Record<string, number | null> = { [PEAK]: busyOf(mode) };
    for (const name of Object.values(QUEUE)) now[name] = number(head.summary[name]);
    for (const { name } of MODES) now[name] = mode(name);
    for (const { key } of this.tasks) now[key] = number(watched.get(key));
    const empty = this.times.map(() => null);
    this.values = byName(now, (value, name) => [
      ...(this.values[name] ?? empty).slice(drop),
      ...(hole ? [null] : []),
      value,
    ]);
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

const linesOf = (chart: Chart | undefined) => (chart?.body.kind === 'lines' ? chart.body.lines : []);

function byName<From, To>(all: Record<string, From>, make: (of: From, name: string) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(all).map(([name, of]) => [name, make(of, name)]));
}
