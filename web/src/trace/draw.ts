// Draws the rows of the timeline on a canvas, and over them the selected area, the selected slice, arrows from wakers to woken threads.
// In: an answer, a window, rows. Out: pixels. Why canvas: thousands of slices move with each turn of the wheel.
import type { TraceCpuTrack, TraceSlice, TraceThread, TraceThreadTrack, TraceTracks } from '../lib/api';
import { cssColor, lineColor } from '../lib/colors';
import { visible } from '../lib/format';
import { hatchScaled } from '../parts/hatch';
import { AXIS, BEFORE_NUMBER, fitting, type Program, programOf, type Row, usualLine } from './rows';
import { lengthOf, ticksOf, type Span } from './window';

export interface Scene {
  width: number;
  height: number;
  /** Space for the names of the rows, px. */
  left: number;
  scroll: number;
  span: Span;
  rows: readonly Row[];
  isDark: boolean;
  names: ReadonlyMap<number, TraceThread>;
  /** Programs with colours of their own. */
  programs: readonly Program[];
}

type Context = CanvasRenderingContext2D;

const FONT = '11px Inter, system-ui, sans-serif';
/** Narrower slices have no name. */
const NAMED_PX = 26;
const QUEUE_PX = 5;
/** Waiting threads that fill the stripe. */
const QUEUE_FULL = 400;

const UNKNOWN = -1;
export const STATES = [
  ['running', 'user'],
  ['ready', 'ready'],
  ['preempted', 'system'],
  ['blocked', 'blocked'],
  ['unknown', 'unknown'],
] as const;
/** Places in STATES by the API's codes. */
const BY_CODE = [4, 0, 1, 2, 3] as const;

export const xOf = (scene: Scene, at: number): number =>
  scene.left + ((at - scene.span.from) * (scene.width - scene.left)) / lengthOf(scene.span);

export const timeOf = (scene: Scene, x: number): number =>
  scene.span.from + ((x - scene.left) * lengthOf(scene.span)) / Math.max(1, scene.width - scene.left);

export const yOf = (scene: Scene, row: Row): number => AXIS + row.top - scene.scroll;

/** The colour of a blocked state, by the kind of its reason: threads that wait for a disk or a lock are seen among
 * sleeping ones. */
export function reasonColor(reason: string | undefined): string {
  if (reason === undefined) return cssColor('blocked');
  if (/^(disk|page fault|f?sync|fdatasync|msync)/.test(reason)) return cssColor('irq');
  if (/^(futex|flock|semop|semtimedop|msgrcv)/.test(reason)) return cssColor('softirq');
  if (/^(read|write|recv|send|accept|connect|splice|pread|pwrite)/.test(reason)) return cssColor('nice');
  return cssColor('blocked');
}

/** The first of ascending begins that may be on screen. */
function firstOf(begins: readonly number[], from: number): number {
  let [low, high] = [0, begins.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (begins[middle]! <= from) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

class Painter {
  private readonly colors = new Map<number, string>();

  constructor(
    private readonly context: Context,
    private readonly scene: Scene,
  ) {}

  color(who: number): string {
    const known = this.colors.get(who);
    if (known !== undefined) return known;
    const names = this.scene.names.get(who);
    const color = names && !names.is_kernel ? this.programColor(programOf(names)) : cssColor('unattributed');
    this.colors.set(who, color);
    return color;
  }

  private programColor(program: string): string {
    const busy = this.scene.programs.find(({ name }) => name === program);
    return lineColor(busy ? busy.line : usualLine(program));
  }

  /** Each slice of a track that is on screen: its number, and where it begins and ends. */
  private slices(
    track: TraceCpuTrack | TraceThreadTrack,
    bucketNs: number,
    paint: (at: number, x: number, end: number) => void,
  ): void {
    const { scene } = this;
    const begins = track.from_ns;
    for (let at = firstOf(begins, scene.span.from); at < begins.length; at += 1) {
      const begin = begins[at]!;
      if (begin >= scene.span.until) return;
      const end = xOf(scene, begin + (track.is_exact ? track.length_ns[at]! : bucketNs));
      if (end >= scene.left) paint(at, Math.max(scene.left, xOf(scene, begin)), end);
    }
  }

  cpu(track: TraceCpuTrack, bucketNs: number, fromNs: number, row: Row): void {
    const { context, scene } = this;
    const [top, high] = [yOf(scene, row) + 1, row.height - QUEUE_PX - 4];
    this.slices(track, bucketNs, (at, x, end) => {
      const wide = Math.max(track.is_exact ? 0.5 : 0.9, end - x);
      const who = track.who[at]!;
      const busy = track.is_exact ? (who === UNKNOWN ? 0 : 1000) : track.busy[at]!;
      const unknown = track.is_exact ? 1000 - busy : track.unknown[at]!;
      if (busy > 0) {
        context.fillStyle = this.color(who);
        const tall = Math.max(1, (high * busy) / 1000);
        context.fillRect(x, top + high - tall, wide, tall);
      }
      if (unknown > 20) this.hatched(x, top, wide, (high * unknown) / 1000);
      const name = track.is_exact && wide > NAMED_PX ? scene.names.get(who)?.name : undefined;
      if (name !== undefined) this.text(visible(name), x, top, Math.min(end, scene.width) - x, high);
    });
    this.queue(track.queue, bucketNs, fromNs, top + high + 1);
  }

  /** Longer queues are darker and taller. */
  private queue(lengths: readonly number[], bucketNs: number, fromNs: number, top: number): void {
    const { context, scene } = this;
    context.fillStyle = cssColor('ready');
    const first = Math.max(0, Math.floor((scene.span.from - fromNs) / bucketNs));
    for (let at = first; at < lengths.length; at += 1) {
      const begin = fromNs + at * bucketNs;
      if (begin >= scene.span.until) break;
      if (lengths[at]! === 0) continue;
      const x = Math.max(scene.left, xOf(scene, begin));
      const tall = Math.max(1, Math.min(1, lengths[at]! / QUEUE_FULL) * QUEUE_PX);
      context.fillRect(x, top + QUEUE_PX - tall, Math.max(0.9, xOf(scene, begin + bucketNs) - x), tall);
    }
  }

  thread(track: TraceThreadTrack, reasons: readonly string[], bucketNs: number, row: Row): void {
    const { context, scene } = this;
    const [top, high] = [yOf(scene, row) + 2, row.height - 4];
    const colors = STATES.map(([, color]) => cssColor(color));
    this.slices(track, bucketNs, (at, x, end) => {
      const wide = Math.max(0.9, end - x);
      const reason = reasons[track.reason[at]!];
      if (!track.is_exact) {
        this.shares(track.shares[at]!, colors, reason, x, wide, top, high);
        return;
      }
      const state = BY_CODE[track.state[at]!] ?? 4;
      if (state === 4) {
        this.hatched(x, top, wide, high);
        return;
      }
      context.fillStyle = state === 3 ? reasonColor(reason) : colors[state]!;
      // Sleeping threads are low: running and waiting ones are seen first.
      const tall = state === 3 ? high / 3 : high;
      context.fillRect(x, top + high - tall, wide, tall);
      if (state === 0 && wide > 44) this.text(`CPU ${track.cpu[at]}`, x, top, Math.min(end, scene.width) - x, high);
    });
  }

  /** Shares of a bucket, running at the bottom, with waiting for a CPU on it. */
  private shares(
    shares: readonly number[],
    colors: readonly string[],
    reason: string | undefined,
    x: number,
    wide: number,
    top: number,
    high: number,
  ): void {
    let bottom = top + high;
    for (const state of [0, 1, 2, 3, 4]) {
      const share = shares[state] ?? 0;
      if (share === 0) continue;
      const tall = (high * share) / 1000 / (state === 3 ? 3 : 1);
      this.context.fillStyle = state === 3 ? reasonColor(reason) : colors[state]!;
      this.context.fillRect(x, bottom - tall, wide, Math.max(0.5, tall));
      bottom -= tall;
    }
  }

  private hatched(x: number, top: number, wide: number, high: number): void {
    hatchScaled(this.context, [x, top, wide, high], cssColor('unknown'));
  }

  /** As many letters as fit, measured once for all. */
  private text(text: string, x: number, top: number, wide: number, high: number): void {
    const { context, scene } = this;
    const fits = Math.floor((wide - 6) / 6.2);
    if (fits < 2) return;
    context.fillStyle = scene.isDark ? '#0e1318' : '#ffffff';
    context.fillText(text.length > fits ? `${text.slice(0, fits - 1)}…` : text, x + 3, top + high / 2 + 0.5);
  }
}

/** Draws within a part of the canvas. */
function within(context: Context, x: number, y: number, width: number, height: number, paint: () => void): void {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  paint();
  context.restore();
}

const onRows = (context: Context, { left, width, height }: Scene, paint: () => void): void =>
  within(context, left, AXIS, width - left, height - AXIS, paint);

function axis(context: Context, scene: Scene): void {
  context.fillStyle = cssColor('panel');
  context.fillRect(0, 0, scene.width, AXIS);
  context.strokeStyle = cssColor('line');
  context.fillStyle = cssColor('dim');
  for (const { at, text } of ticksOf(scene.span, scene.width - scene.left)) {
    const x = Math.round(xOf(scene, at)) + 0.5;
    context.beginPath();
    context.moveTo(x, AXIS - 5);
    context.lineTo(x, scene.height);
    context.stroke();
    if (x + 4 + context.measureText(text).width < scene.width) context.fillText(text, x + 3, AXIS / 2);
  }
}

function labels(context: Context, scene: Scene, rows: readonly Row[], chosen: Row | undefined): void {
  context.fillStyle = cssColor('panel');
  context.fillRect(0, AXIS, scene.left, scene.height);
  for (const row of rows) {
    const y = yOf(scene, row);
    if (chosen && row.kind === chosen.kind && row.id === chosen.id) {
      context.fillStyle = cssColor('raised');
      context.fillRect(0, y, scene.left, row.height);
    }
    within(context, 0, y, scene.left - 6, row.height, () => {
      context.fillStyle = cssColor('text');
      const width = (text: string): number => context.measureText(text).width;
      const [label, more] = fitting(visible(row.label), visible(row.more), scene.left - 14, width);
      context.fillText(label, 8, y + row.height / 2);
      context.fillStyle = cssColor('dim');
      context.fillText(more, 8 + BEFORE_NUMBER + width(label), y + row.height / 2);
    });
  }
  context.fillStyle = cssColor('panel');
  context.fillRect(0, 0, scene.left, AXIS);
}

/** Draws all rows on screen. `whole` fills the parts that the answer does not have. */
export function draw(
  context: Context,
  scene: Scene,
  answer: TraceTracks | null,
  whole: TraceTracks | null,
  chosen: Row | undefined,
): void {
  context.font = FONT;
  context.textBaseline = 'middle';
  axis(context, scene);
  const painter = new Painter(context, scene);
  const rows = scene.rows.filter((row) => {
    const y = yOf(scene, row);
    return y + row.height > AXIS && y < scene.height;
  });
  onRows(context, scene, () => {
    for (const row of rows) {
      context.fillStyle = cssColor(row.kind === 'cpu' ? 'raised' : 'bg');
      context.fillRect(scene.left, yOf(scene, row) + 1, scene.width - scene.left, row.height - 2);
    }
    for (const from of sourcesOf(scene, answer, whole)) {
      const cpus = new Map(from.cpus.map((track) => [track.cpu, track]));
      const threads = new Map(from.threads.map((track) => [track.thread, track]));
      for (const row of rows) {
        const [cpu, thread] = row.kind === 'cpu' ? [cpus.get(row.id), undefined] : [undefined, threads.get(row.id)];
        if (cpu) painter.cpu(cpu, from.bucket_ns, from.from_ns, row);
        if (thread) painter.thread(thread, from.reasons, from.bucket_ns, row);
      }
    }
  });
  labels(context, scene, rows, chosen);
}

/** The answer where it has the whole window; else the one of the whole trace under it. */
function sourcesOf(scene: Scene, answer: TraceTracks | null, whole: TraceTracks | null): TraceTracks[] {
  if (!answer) return whole ? [whole] : [];
  const until = answer.from_ns + answer.bucket_ns * answer.count;
  const isMissing = answer.from_ns > scene.span.from || until < scene.span.until;
  return isMissing && whole ? [whole, answer] : [answer];
}

/** Over the rows: the selected area. */
export interface Area extends Span {
  cpus: readonly number[];
  threads: readonly number[];
}

export function drawArea(context: Context, scene: Scene, area: Area): void {
  const [left, right] = [Math.max(scene.left, xOf(scene, area.from)), Math.min(scene.width, xOf(scene, area.until))];
  if (right < left) return;
  const rows = scene.rows.filter((row) => (row.kind === 'cpu' ? area.cpus : area.threads).includes(row.id));
  onRows(context, scene, () => {
    context.fillStyle = lineColor(0);
    context.globalAlpha = 0.18;
    for (const row of rows.length > 0 ? rows : scene.rows)
      context.fillRect(left, yOf(scene, row), right - left, row.height);
    context.globalAlpha = 1;
    for (const x of [left, right]) context.fillRect(x - 0.5, AXIS, 1, scene.height);
  });
}

const rowOf = (scene: Scene, kind: Row['kind'], id: number | null | undefined): Row | undefined =>
  scene.rows.find((row) => row.kind === kind && row.id === id);

function arrow(context: Context, scene: Scene, from: [number, Row], to: [number, Row]): void {
  const middle = (row: Row): number => yOf(scene, row) + row.height / 2;
  const [x0, y0, x1, y1] = [xOf(scene, from[0]), middle(from[1]), xOf(scene, to[0]), middle(to[1])];
  const bend = Math.max(12, Math.abs(x1 - x0) / 2);
  context.beginPath();
  context.moveTo(x0, y0);
  context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
  context.stroke();
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x1 - 7, y1 - 4);
  context.lineTo(x1 - 7, y1 + 4);
  context.fill();
}

export function drawSlice(context: Context, scene: Scene, slice: TraceSlice): void {
  const own = [
    rowOf(scene, 'thread', slice.who.thread),
    slice.state === 'running' ? rowOf(scene, 'cpu', slice.cpu) : undefined,
  ];
  onRows(context, scene, () => {
    context.strokeStyle = cssColor('text');
    context.fillStyle = cssColor('text');
    const [left, right] = [xOf(scene, slice.from_ns), xOf(scene, slice.from_ns + slice.length_ns)];
    context.lineWidth = 2;
    for (const row of own)
      if (row) context.strokeRect(left, yOf(scene, row) + 1, Math.max(2, right - left), row.height - 2);
    context.lineWidth = 1.5;
    const home = own[0] ?? own[1];
    const { wait } = slice;
    if (wait && home) {
      const waker = rowOf(scene, 'thread', wait.waker?.thread) ?? rowOf(scene, 'cpu', wait.waker_cpu);
      if (waker)
        arrow(context, scene, [wait.from_ns, waker], [slice.state === 'running' ? slice.from_ns : wait.from_ns, home]);
    }
    for (const { who, at_ns, ran_ns, cpu } of slice.woke.slice(0, 16)) {
      const row = rowOf(scene, 'thread', who.thread) ?? rowOf(scene, 'cpu', cpu);
      if (row && home) arrow(context, scene, [at_ns, home], [ran_ns ?? at_ns, row]);
    }
  });
}
