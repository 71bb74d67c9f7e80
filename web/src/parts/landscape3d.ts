// The 3D picture. In: rows by time. Out: bars that turn. Why: a chunk of its own, so that no other view pays for ECharts GL.
import { Bar3DChart } from 'echarts-gl/charts';
import { Grid3DComponent } from 'echarts-gl/components';
import { VisualMapContinuousComponent } from 'echarts/components';
import { init, use, type EChartsType } from 'echarts/core';
import { CanvasRenderer } from 'echarts/renderers';
import { clock, visible, type Zone } from '../lib/format';
import { heatColor } from '../lib/heat';

use([Bar3DChart, Grid3DComponent, VisualMapContinuousComponent, CanvasRenderer]);

const FARTHEST = 600;

export interface Pointed {
  name: string;
  seconds: number;
  value: number;
}

interface Data {
  times: readonly number[];
  rows: readonly { key: string; name: string; values: readonly (number | null)[] }[];
  most: number;
  zone: Zone;
}

export interface Landscape3d {
  draw: (data: Data) => void;
  canvas: () => HTMLCanvasElement | null;
  close: () => void;
}

export function open(box: HTMLElement, ink: { text: string; line: string; dark: boolean }, onpoint: (what: Pointed | null) => void): Landscape3d {
  const probe = document.createElement('canvas').getContext('webgl');
  if (!probe) throw new Error('This browser has no WebGL.');
  probe.getExtension('WEBGL_lose_context')?.loseContext();
  const chart: EChartsType = init(box, null, { renderer: 'canvas' });
  let shown: Data | null = null;
  const resize = new ResizeObserver(() => chart.resize());
  resize.observe(box);
  chart.on('mouseover', (event) => {
    const value = (event as { value?: unknown }).value;
    if (!shown || !Array.isArray(value)) return;
    const [column, row, height] = value as number[];
    onpoint({ name: shown.rows[row!]?.name ?? '', seconds: shown.times[column!] ?? NaN, value: height! });
  });
  chart.on('mouseout', () => onpoint(null));
  return {
    draw: (data) => {
      shown = data;
      chart.setOption(optionOf(data, ink, distanceOf(box)), { notMerge: shown === null });
    },
    // ECharts GL draws on a layer of its own, the one with the picture.
    canvas: () => Array.from(box.querySelectorAll('canvas')).at(-1) ?? null,
    close: () => {
      resize.disconnect();
      chart.dispose();
    },
  };
}

/** How far away the whole of the bars is in sight: the camera sees `2 tan(fov / 2)` of the distance in height, and by the box's shape in width. */
function distanceOf(box: HTMLElement): number {
  const shape = box.clientWidth / Math.max(1, box.clientHeight);
  return Math.min(FARTHEST, Math.max(250, 350 / (0.83 * shape)));
}

function optionOf({ times, rows, most, zone }: Data, ink: { text: string; line: string; dark: boolean }, distance: number): Record<string, unknown> {
  const bars: [number, number, number][] = [];
  rows.forEach((row, y) => row.values.forEach((value, x) => {
    if (value !== null && value > 0) bars.push([x, y, value]);
  }));
  const axis = {
    axisLine: { lineStyle: { color: ink.line } }, axisLabel: { color: ink.text, fontSize: 12, margin: 12, lineHeight: 18, fontFamily: 'Inter, system-ui, sans-serif' },
    splitLine: { lineStyle: { color: ink.line } }, axisTick: { show: false }, nameTextStyle: { color: ink.text, fontSize: 12 }, axisPointer: { show: false },
  };
  const every = Math.max(1, Math.floor(times.length / 6));
  return {
    animation: false,
    visualMap: { show: false, min: 0, max: most, dimension: 2, inRange: { color: [0.02, 0.15, 0.4, 0.7, 1].map((share) => heatColor(share, ink.dark)) } },
    xAxis3D: { ...axis, type: 'category', name: '', data: times.map((time) => clock(time * 1000, zone)), axisLabel: { ...axis.axisLabel, showMaxLabel: false, interval: (at: number) => at % every === 0 && at < times.length - every / 2 } },
    yAxis3D: { ...axis, type: 'category', name: '', data: rows.map((row) => visible(row.name).slice(0, 24)), axisLabel: { ...axis.axisLabel, interval: 0 } },
    // The floor's 0 would lie on the first time.
    zAxis3D: { ...axis, type: 'value', name: '', min: 0, splitNumber: 4, axisLabel: { ...axis.axisLabel, formatter: (value: number) => (value === 0 ? '' : String(value)) } },
    grid3D: {
      boxWidth: 230, boxDepth: 120, boxHeight: 62, top: -20, environment: 'none',
      viewControl: { alpha: 26, beta: 28, distance, center: [8, -12, 0], minDistance: 80, maxDistance: FARTHEST, autoRotate: false, rotateSensitivity: 1.2, animation: false },
      light: { main: { intensity: 0.75, alpha: 40, beta: 30, shadow: false }, ambient: { intensity: 0.38 } },
    },
    series: [{ type: 'bar3D', shading: 'lambert', bevelSize: 0, barSize: [Math.max(0.6, (230 / Math.max(times.length, 1)) * 0.92), Math.max(1, (120 / Math.max(rows.length, 1)) * 0.7)], data: bars, emphasis: { label: { show: false }, itemStyle: { color: ink.dark ? '#fff' : '#e09a10' } } }],
  };
}
