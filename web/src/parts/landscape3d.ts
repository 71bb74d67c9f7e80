// The 3D picture. In: rows by time. Out: bars that turn. Why: a chunk of its own, so that no other view pays for ECharts GL.
import { Bar3DChart } from 'echarts-gl/charts';
import { Grid3DComponent } from 'echarts-gl/components';
import { VisualMapContinuousComponent } from 'echarts/components';
import { init, use, type EChartsType } from 'echarts/core';
import { CanvasRenderer } from 'echarts/renderers';
import type { HeatmapRow } from '../lib/api';
import { allowed, cameraText, FARTHEST, NEAREST, type Camera } from '../lib/camera';
import { nameText, type Zone } from '../lib/format';
import { heatColor } from '../lib/heat';
import { roundTicks, timeLabels } from '../lib/round-ticks';

use([Bar3DChart, Grid3DComponent, VisualMapContinuousComponent, CanvasRenderer]);

/** A drag reports many positions; the last one counts. */
const STILL_MS = 300;
/** A pointer that moved further turned the picture. */
const STILL_PX = 4;

export interface Pointed {
  name: string;
  seconds: number;
  value: number;
}

interface Data {
  times: readonly number[];
  rows: readonly Pick<HeatmapRow, 'key' | 'name' | 'values'>[];
  most: number;
  zone: Zone;
}

/** How the camera moves: degrees around the bars and above them, and closer by a factor. */
export interface Turn {
  around?: number;
  above?: number;
  closer?: number;
}

export interface Landscape3d {
  draw: (data: Data) => void;
  turn: (by: Turn) => void;
  /** Puts the camera somewhere; null: where it stood at first. */
  moveTo: (from: Camera | null) => void;
  canvas: () => HTMLCanvasElement | null;
  close: () => void;
}

export interface Events {
  point: (what: Pointed | null) => void;
  /** A click on a bar: the key of its row, and the start of its time. */
  pick: (key: HeatmapRow['key'], seconds: number) => void;
  /** The user moved the camera, and it has stopped. */
  turned: (camera: Camera) => void;
}

export function open(
  box: HTMLElement,
  ink: { text: string; line: string; dark: boolean },
  from: Camera | null,
  on: Events,
): Landscape3d {
  const probe = document.createElement('canvas').getContext('webgl');
  if (!probe) throw new Error('This browser has no WebGL.');
  probe.getExtension('WEBGL_lose_context')?.loseContext();
  const chart: EChartsType = init(box, null, { renderer: 'canvas' });
  let shown: Data | null = null;
  let staged = '';
  /** Where the user put the camera; null: where it suits the window. */
  let chosen = from;
  let still: ReturnType<typeof setTimeout> | undefined;
  const controlled = (): Camera => placeOf(controlOf(stageOf(box), chosen));
  const camera = (): Camera | null => {
    const [grid] = (chart.getOption() as { grid3D?: { viewControl: Placed }[] }).grid3D ?? [];
    return grid ? placeOf(grid.viewControl) : null;
  };
  const resize = new ResizeObserver(() => chart.resize());
  resize.observe(box);
  let isOnBar = false;
  /** What the pointer is on, as it was reported. */
  let bar: { key: HeatmapRow['key']; seconds: number } | null = null;
  chart.on('mousemove', (event) => {
    const value = (event as { value?: unknown }).value;
    if (!shown || !Array.isArray(value)) return;
    const [column, nth, height] = value as number[];
    const [row, seconds = NaN] = [shown.rows[nth!], shown.times[column!]];
    isOnBar = true;
    bar = row ? { key: row.key, seconds } : null;
    on.point({ name: row?.name ?? '', seconds, value: height! });
  });
  /** The chart does not report that the pointer went from a bar to where none is: only that it is on another one. */
  const left = (): void => {
    if (!isOnBar) {
      bar = null;
      on.point(null);
    }
    isOnBar = false;
  };
  const listening = new AbortController();
  const { signal } = listening;
  box.addEventListener('mousemove', left, { signal });
  box.addEventListener('mouseleave', left, { signal });
  /** Where the button went down: the end of a turn is no click. */
  let down: { x: number; y: number } | null = null;
  const press = (event: PointerEvent): void => void (down = { x: event.clientX, y: event.clientY });
  box.addEventListener('pointerdown', press, { capture: true, signal });
  // A click on the box: when the chart draws again below a pointer that does not move, it forgets the bar there and reports no click.
  const click = (event: MouseEvent): void => {
    const moved = down ? Math.hypot(event.clientX - down.x, event.clientY - down.y) : 0;
    if (bar && Number.isFinite(bar.seconds) && moved <= STILL_PX) on.pick(bar.key, bar.seconds);
  };
  box.addEventListener('click', click, { signal });
  chart.on('grid3dcamerachanged', () => {
    clearTimeout(still);
    still = setTimeout(() => {
      const position = camera();
      // The chart also reports positions that it was given.
      if (!position || cameraText(position) === cameraText(controlled())) return;
      chosen = position;
      on.turned(position);
    }, STILL_MS);
  });
  return {
    draw: (data) => {
      shown = data;
      const stage = stageOf(box);
      const option = optionOf(data, ink, stage, chosen);
      // A turn that is not reported yet stays; a window of another shape gets another stage.
      if (staged === JSON.stringify(stage)) Object.assign(option, { grid3D: {} });
      staged = JSON.stringify(stage);
      chart.setOption(option);
    },
    turn: (by) => {
      const position = camera();
      if (!position) return;
      const { alpha, beta, distance } = position;
      const moved = allowed({
        ...position,
        alpha: alpha + (by.above ?? 0),
        beta: beta + (by.around ?? 0),
        distance: distance / (by.closer ?? 1),
      });
      chosen = moved;
      chart.setOption({ grid3D: { viewControl: moved } });
      on.turned(moved);
    },
    moveTo: (where) => {
      chosen = where;
      if (shown) chart.setOption({ grid3D: { viewControl: controlOf(stageOf(box), chosen) } });
    },
    // ECharts GL draws on a layer of its own, the one with the picture.
    canvas: () => Array.from(box.querySelectorAll('canvas')).at(-1) ?? null,
    close: () => {
      clearTimeout(still);
      listening.abort();
      resize.disconnect();
      chart.dispose();
    },
  };
}

/** A camera as the chart reports it. */
type Placed = Camera & { center: [number, number, number] };

const BETA = 28;
const CENTER = [8, -20, 0] as const;

function placeOf({ alpha, beta, distance, center }: Placed): Camera {
  const isAside = center.some((value, at) => Math.round(value) !== CENTER[at]);
  return { alpha, beta, distance, ...(isAside ? { center } : {}) };
}

function controlOf(stage: Stage, from: Camera | null): Placed {
  const { alpha, beta, distance, center } = from ?? { ...stage, beta: BETA };
  return { alpha, beta, distance, center: [...(center ?? CENTER)] };
}

/** The stage that suits a window. */
interface Stage {
  width: number;
  depth: number;
  /** The position of the camera: degrees above the floor, and how far away. */
  alpha: number;
  distance: number;
  /** Moments with a label. */
  ticks: number;
  /** Letters of a name, and how high they are. */
  letters: number;
  font: number;
}

/** In less height names at the back would cover each other. */
const LOW_PX = 600;

/**
 * The whole of the bars is in sight: the camera sees `2 tan(fov / 2)` of the distance in height, and by the box's shape in width. A window
 * that is higher than wide gets a narrower stage. It and a low one are seen from further above, so that names at the side do not cover
 * each other.
 */
function stageOf(box: HTMLElement): Stage {
  const shape = box.clientWidth / Math.max(1, box.clientHeight);
  const isNarrow = shape < 1.2;
  const isLow = box.clientHeight < LOW_PX;
  const [width, depth] = isNarrow ? [95, 105] : [220, 150];
  return {
    width,
    depth,
    alpha: isNarrow ? 40 : isLow ? 46 : 35,
    distance: Math.min(FARTHEST, Math.max(275, (width + depth) / (0.83 * shape))),
    ticks: isNarrow ? 3 : 6,
    letters: isNarrow ? 12 : 24,
    font: isLow ? 11 : 12,
  };
}

function short(name: string, letters: number): string {
  return name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
}

/** The bar whose middle is nearest to a time. */
const barAt = (times: readonly number[], width: number, time: number): number =>
  width > 0 ? Math.min(times.length - 1, Math.max(0, Math.round((time - times[0]!) / width - 0.5))) : 0;

function optionOf(
  { times, rows, most, zone }: Data,
  ink: { text: string; line: string; dark: boolean },
  stage: Stage,
  from: Camera | null,
): Record<string, unknown> {
  const bars: [number, number, number][] = [];
  rows.forEach((row, y) =>
    row.values.forEach((value, x) => {
      // 0 is a flat tile; where a task was not running there is none.
      if (value !== null) bars.push([x, y, value]);
    }),
  );
  const axis = {
    axisLine: { lineStyle: { color: ink.line } },
    axisLabel: {
      color: ink.text,
      fontSize: 12,
      margin: 12,
      lineHeight: 18,
      fontFamily: 'Inter, system-ui, sans-serif',
    },
    splitLine: { lineStyle: { color: ink.line } },
    axisTick: { show: false },
    nameTextStyle: { color: ink.text, fontSize: 12 },
    axisPointer: { show: false },
  };
  const width = (times[1] ?? 0) - (times[0] ?? 0);
  const round = roundTicks(times[0] ?? 0, (times.at(-1) ?? 0) + width / 2, stage.ticks / 2, zone);
  const labels = new Map(timeLabels(round, zone).map((text, nth) => [barAt(times, width, round[nth]!), text]));
  return {
    animation: false,
    visualMap: {
      show: false,
      min: 0,
      max: most,
      dimension: 2,
      inRange: { color: [0.02, 0.15, 0.4, 0.7, 1].map((share) => heatColor(share, ink.dark)) },
    },
    xAxis3D: {
      ...axis,
      type: 'category',
      name: '',
      // The chart shows the first and the last one always.
      data: times.map((_, at) => labels.get(at) ?? ' '),
      axisLabel: {
        ...axis.axisLabel,
        showMaxLabel: false,
        interval: (at: number) => labels.has(at),
      },
    },
    yAxis3D: {
      ...axis,
      type: 'category',
      name: '',
      // Not the name alone: the chart keeps texts as keys of an object, which has a `constructor` and a `__proto__` already.
      data: rows.map((row) => `${short(nameText(row.name), stage.letters)} `),
      axisLabel: { ...axis.axisLabel, fontSize: stage.font, interval: 0 },
    },
    // The floor's 0 would lie on the first time.
    zAxis3D: {
      ...axis,
      type: 'value',
      name: '',
      min: 0,
      splitNumber: 4,
      axisLabel: { ...axis.axisLabel, formatter: (value: number) => (value === 0 ? '' : String(value)) },
    },
    grid3D: {
      boxWidth: stage.width,
      boxDepth: stage.depth,
      boxHeight: 62,
      top: -20,
      environment: 'none',
      viewControl: {
        ...controlOf(stage, from),
        minDistance: NEAREST,
        maxDistance: FARTHEST,
        autoRotate: false,
        rotateSensitivity: 1.2,
        animation: false,
      },
      light: { main: { intensity: 0.75, alpha: 40, beta: 30, shadow: false }, ambient: { intensity: 0.38 } },
    },
    series: [
      {
        type: 'bar3D',
        shading: 'lambert',
        bevelSize: 0,
        barSize: [
          Math.max(0.6, (stage.width / Math.max(times.length, 1)) * 0.92),
          Math.max(1, (stage.depth / Math.max(rows.length, 1)) * 0.7),
        ],
        data: bars,
        emphasis: { label: { show: false }, itemStyle: { color: ink.dark ? '#fff' : '#e09a10' } },
      },
    ],
  };
}
