// uPlot with our rules. In: lines, gaps, colours. Out: options and data. Why: gaps are holes with a reason, never a line
// across; times are in the zone that the user chose; every chart display alike.
import { hatch } from './hatch';
import type { Hole } from '../lib/shares';
import type { ChartLine } from '../lib/api';
import { cssColor } from '../lib/colors';
import { isNumber, type Zone } from '../lib/format';
import { timeLabels } from '../lib/round-ticks';
import uPlot from 'uplot';

/** A line of a task or a group if it has a key. An area is drawn on the one before it, and a dashed line is thin. */
export interface PlotLine extends Pick<ChartLine, 'key' | 'label' | 'stroke'> {
  color: string;
  values: readonly (number | null)[];
  /** Words for a point that was measured and in which it has no value. */
  absent?: string;
}

export interface PlotData {
  /** Seconds since the epoch. */
  times: readonly number[];
  lines: readonly PlotLine[];
  /** Times without data, hatched. */
  gaps: readonly Hole[];
  /** Times at which the task was absent: blank, with a word. */
  absences?: readonly Hole[];
}

/** Stacked lines become sums; where any part has no data, so has the sum. */
export function stack(lines: readonly PlotLine[]): (number | null)[][] {
  const sums: (number | null)[][] = [];
  let below: (number | null)[] | null = null;
  for (const line of lines) {
    if (line.stroke !== 'area') {
      sums.push([...line.values]);
      continue;
    }
    const base: (number | null)[] | null = below;
    const sum: (number | null)[] = line.values.map((value, at) => {
      const under = base ? (base[at] ?? null) : 0;
      return value === null || under === null || !Number.isFinite(value) ? under : value + under;
    });
    // No part at all is no data.
    for (let at = 0; at < sum.length; at += 1) {
      if (!base && (line.values[at] === null || line.values[at] === undefined)) sum[at] = null;
    }
    sums.push(sum);
    below = sum;
  }
  return sums;
}

export function toUplot(data: PlotData): uPlot.AlignedData {
  return [data.times as number[], ...stack(data.lines)] as uPlot.AlignedData;
}

/** The newest point with data. A peak is known of a point that has only begun: then the one before it, which has the values beside it. */
export function newest({ times, lines }: PlotData): number {
  const known = (some: readonly PlotLine[]): number =>
    times.findLastIndex((_, nth) => some.some((line) => isNumber(line.values[nth])));
  const own = known(lines.filter((line) => line.stroke !== 'dashed'));
  const any = own >= 0 ? own : known(lines);
  return any >= 0 ? any : times.length - 1;
}

interface Now {
  data: PlotData;
  range: readonly [number, number] | null;
  mark: number | null;
  /** A selected span, seconds: the rest is dimmed. */
  selected: readonly [number, number] | null;
}

interface PlotSetup {
  width: number;
  height: number;
  /** Space for the numbers of the axis, px. */
  left: number;
  zone: Zone;
  unit: string;
  /** The interval on screen when it is drawn. */
  now: () => Now;
  max?: number | undefined;
  /** The value that no line can exceed: an axis that nearly reaches it ends there. */
  full?: number | undefined;
  onpick?: ((seconds: number) => void) | undefined;
  onbrush?: ((from: number, to: number) => void) | undefined;
  onhover?: ((at: number | null) => void) | undefined;
  /** Charts of one name show the pointer at the same time. */
  sync?: string | undefined;
}

export function options(setup: PlotSetup): uPlot.Options {
  const { zone } = setup;
  const { lines } = setup.now().data;
  const [text, grid] = [cssColor('dim'), cssColor('line')];
  const axis = {
    stroke: text,
    grid: { stroke: grid, width: 1 },
    ticks: { stroke: grid, size: 4 },
    font: '11px Inter, system-ui, sans-serif',
  };
  return {
    width: setup.width,
    height: setup.height,
    padding: [8, 26, 0, 0],
    // Ticks stand on whole hours and days of the zone that the labels are in.
    tzDate: (seconds) =>
      zone === 'utc' ? uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC') : new Date(seconds * 1000),
    legend: { show: false },
    cursor: {
      drag: { x: setup.onbrush !== undefined, y: false, setScale: false },
      points: { size: 5 },
      ...(setup.sync ? { sync: { key: setup.sync, scales: ['x', null], setSeries: false } } : {}),
      y: false,
    },
    scales: {
      x: { time: true, range: (_plot, min, max) => (setup.now().range as [number, number] | null) ?? [min, max] },
      y: { range: (_plot, _min, max) => [0, setup.max ?? nice(max, setup.full)] },
    },
    axes: [
      { ...axis, size: 26, gap: 4, space: 110, values: (_plot, ticks) => timeLabels(ticks, zone) },
      {
        ...axis,
        size: setup.left,
        gap: 4,
        space: setup.height < 100 ? 16 : 30,
        values: (_plot, ticks) => ticks.map((tick) => String(tick)),
      },
    ],
    series: [{}, ...lines.map(seriesOf)],
    bands: bandsOf(lines),
    hooks: {
      drawClear: [(plot) => drawGaps(plot, setup)],
      drawAxes: [(plot) => drawReasons(plot, setup)],
      draw: [(plot) => drawSelected(plot, setup), (plot) => drawMark(plot, setup)],
      setCursor: [(plot) => setup.onhover?.(plot.cursor.idx ?? null)],
      setSelect: [(plot) => brushed(plot, setup)],
      ready: [(plot) => listenForClicks(plot, setup), (plot) => listenForTouch(plot, setup)],
    },
  };
}

/** An area has no outline: that of a part which is 0 would lie on the part below. */
const WIDTHS = { area: 0, dashed: 1, solid: 1.5 } as const;

function seriesOf(line: PlotLine): uPlot.Series {
  return {
    label: line.label,
    stroke: line.color,
    width: WIDTHS[line.stroke],
    ...(line.stroke === 'area' ? { fill: fade(line.color, 0.72) } : {}),
    ...(line.stroke === 'dashed' ? { dash: [3, 3] } : {}),
    spanGaps: false,
    points: { show: false },
  };
}

/** An area above another ends where that one begins. */
function bandsOf(lines: readonly PlotLine[]): uPlot.Band[] {
  const bands: uPlot.Band[] = [];
  let below = -1;
  lines.forEach((line, at) => {
    if (line.stroke !== 'area') return;
    if (below >= 0) bands.push({ series: [at + 1, below + 1], fill: fade(line.color, 0.72) });
    below = at;
  });
  return bands;
}

export function fade(color: string, alpha: number): string {
  const rgb = color.match(/^rgba?\((\d+)[, ]+(\d+)[, ]+(\d+)/);
  if (rgb) return `rgba(${rgb[1]}, ${rgb[2]}, ${rgb[3]}, ${alpha})`;
  const hex = color.match(/^#(..)(..)(..)$/);
  if (hex) return `rgba(${parseInt(hex[1]!, 16)}, ${parseInt(hex[2]!, 16)}, ${parseInt(hex[3]!, 16)}, ${alpha})`;
  return color;
}

/** The end of the axis: a little above the largest value, and never a flat zero. */
export function nice(max: number | null, full = NaN): number {
  if (max === null || !Number.isFinite(max) || max <= 0) return 1;
  // By rounding it may be a little more than the whole; an axis from 2/3 on is that of the whole.
  if (max > full / 1.5 && max <= full * 1.01) return full;
  const step = 10 ** Math.floor(Math.log10(max));
  for (const factor of [1, 1.5, 2, 3, 4, 5, 6, 8, 10]) if (factor * step >= max * 1.02) return factor * step;
  return max * 1.1;
}

/** The edges of each time that is to be seen. */
function onScreen(plot: uPlot, gaps: readonly Hole[]): { from: number; to: number; reason: string }[] {
  const { bbox } = plot;
  return gaps.flatMap((gap) => {
    const from = Math.max(plot.valToPos(gap.begin_ms / 1000, 'x', true), bbox.left);
    const to = Math.min(plot.valToPos(gap.end_ms / 1000, 'x', true), bbox.left + bbox.width);
    return to > from ? [{ from, to, reason: gap.reason }] : [];
  });
}

function drawGaps(plot: uPlot, setup: PlotSetup): void {
  const { ctx, bbox } = plot;
  ctx.save();
  for (const { from, to } of onScreen(plot, setup.now().data.gaps))
    hatch(ctx, [from, bbox.top, Math.max(to - from, 2), bbox.height], cssColor('line'));
  ctx.restore();
}

/** Why, over the grid and on a plate: no line runs through the text. */
function drawReasons(plot: uPlot, setup: PlotSetup): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.font = `${11 * devicePixelRatio}px Inter, system-ui, sans-serif`;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  const { gaps, absences = [] } = setup.now().data;
  for (const { from, to, reason } of onScreen(plot, [...gaps, ...absences])) {
    const width = widthOf(ctx, reason) + 8 * devicePixelRatio;
    if (width >= to - from) continue;
    const [x, y, height] = [(from + to) / 2, bbox.top + bbox.height / 2, 16 * devicePixelRatio];
    ctx.fillStyle = cssColor('panel');
    ctx.fillRect(x - width / 2, y - height / 2, width, height);
    ctx.fillStyle = cssColor('dim');
    ctx.fillText(reason, x, y);
  }
  ctx.restore();
}

const widths = new Map<string, number>();

/** Reasons are few, and the same each second. */
function widthOf(ctx: CanvasRenderingContext2D, text: string): number {
  const key = `${ctx.font} ${text}`;
  const known = widths.get(key);
  if (known !== undefined) return known;
  if (widths.size > 200) widths.clear();
  const { width } = ctx.measureText(text);
  widths.set(key, width);
  return width;
}

/** Time outside of the selection lies under a veil, and the selection between two lines. */
function drawSelected(plot: uPlot, setup: PlotSetup): void {
  const { selected } = setup.now();
  if (!selected) return;
  const { ctx, bbox } = plot;
  const end = bbox.left + bbox.width;
  const [from, to] = selected.map((at) => Math.min(Math.max(plot.valToPos(at, 'x', true), bbox.left), end)) as [
    number,
    number,
  ];
  ctx.save();
  ctx.fillStyle = fade(cssColor('panel'), 0.6);
  ctx.fillRect(bbox.left, bbox.top, from - bbox.left, bbox.height);
  ctx.fillRect(to, bbox.top, end - to, bbox.height);
  ctx.fillStyle = cssColor('dim');
  const line = devicePixelRatio;
  for (const x of [from, to]) ctx.fillRect(x - line / 2, bbox.top, line, bbox.height);
  ctx.restore();
}

function drawMark(plot: uPlot, setup: PlotSetup): void {
  const { mark: at } = setup.now();
  if (at === null) return;
  const { ctx, bbox } = plot;
  const x = plot.valToPos(at, 'x', true);
  if (x < bbox.left || x > bbox.left + bbox.width) return;
  ctx.save();
  ctx.strokeStyle = cssColor('dim');
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}

function brushed(plot: uPlot, setup: PlotSetup): void {
  const { left, width } = plot.select;
  if (width < 4 || !setup.onbrush) return;
  const from = plot.posToVal(left, 'x');
  const to = plot.posToVal(left + width, 'x');
  plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  setup.onbrush(from, to);
}

/** A click is a press and release at one place; a drag is a brush. */
function listenForClicks(plot: uPlot, setup: PlotSetup): void {
  if (!setup.onpick) return;
  let pressed = 0;
  plot.over.addEventListener('mousedown', (event) => (pressed = event.clientX));
  plot.over.addEventListener('click', (event) => {
    if (Math.abs(event.clientX - pressed) > 3) return;
    const box = plot.over.getBoundingClientRect();
    setup.onpick?.(plot.posToVal(event.clientX - box.left, 'x'));
  });
}

/** How far a finger moves before it selects instead of scrolling, px. */
const FINGER = 8;

/** uPlot knows the mouse only: one finger that moves sideways selects too, and up or down it scrolls the page. */
function listenForTouch(plot: uPlot, setup: PlotSetup): void {
  if (!setup.onbrush) return;
  const { over } = plot;
  over.style.touchAction = 'pan-y';
  let from: number | null = null;
  let moved = false;
  const place = (event: TouchEvent): number => {
    const box = over.getBoundingClientRect();
    return Math.min(Math.max((event.touches[0]?.clientX ?? 0) - box.left, 0), box.width);
  };
  const end = (): void => {
    from = null;
    moved = false;
  };
  over.addEventListener('touchstart', (event) => {
    end();
    if (event.touches.length === 1) from = place(event);
  });
  over.addEventListener(
    'touchmove',
    (event) => {
      if (from === null) return;
      const to = place(event);
      moved ||= Math.abs(to - from) > FINGER;
      if (!moved) return;
      if (event.cancelable) event.preventDefault();
      plot.setSelect(
        { left: Math.min(from, to), width: Math.abs(to - from), top: 0, height: over.clientHeight },
        false,
      );
    },
    { passive: false },
  );
  over.addEventListener('touchend', () => {
    if (moved) brushed(plot, setup);
    end();
  });
  over.addEventListener('touchcancel', end);
}
