// The colours of a heatmap. In: a share 0..1, charts.json. Out: a colour. Why: one hue path from the panel's shade to a strong end, its
// lightness always rising (dark) or falling (light), so that it reads without colour vision too.

import charts from '../charts.json';
import type { Chart, ChartBody, HeatmapRow } from './api';

const [LIGHT, DARK] = charts.heat as [number[][], number[][]];

type Heat = Extract<ChartBody, { kind: 'heatmap' }>;

/** The rows of a chart, which values of them are drawn, and the strongest colour. */
export const heatOf = (chart: Chart | undefined): Heat =>
  chart?.body.kind === 'heatmap' ? chart.body : { kind: 'heatmap', rows: [], cells: 'mean', max: 1 };

/** The mark of a row whose task began or ended in the range. */
export const lifeMark = ({ life }: HeatmapRow): string =>
  life === 'born' ? '+' : life === 'ended' ? '†' : life === 'born_ended' ? '‡' : '';

/**
 * Draws a row of cells on whole device pixels, without seams. Cells narrower than a pixel share it, and it shows the
 * highest value: a busy second alone is seen.
 */
export function drawCells(
  values: readonly (number | null)[],
  pixels: number,
  draw: (left: number, wide: number, value: number) => void,
): void {
  const edge = (at: number): number => Math.floor((at * pixels) / values.length);
  let left = 0;
  let most: number | null = null;
  values.forEach((value, at) => {
    if (value !== null) most = Math.max(most ?? 0, value);
    const right = edge(at + 1);
    if (right <= left) return;
    if (most !== null) draw(left, right - left, most);
    left = right;
    most = null;
  });
}

export function heatColor(share: number, isDark: boolean): string {
  const steps = isDark ? DARK : LIGHT;
  // Small values differ more than large ones: the eye needs that, and most values are small.
  const at = Math.sqrt(Math.min(Math.max(share, 0), 1)) * (steps.length - 1);
  const from = steps[Math.floor(at)]!;
  const to = steps[Math.min(Math.floor(at) + 1, steps.length - 1)]!;
  const part = at - Math.floor(at);
  const mix = (nth: 0 | 1 | 2): number => Math.round(from[nth]! + (to[nth]! - from[nth]!) * part);
  return `rgb(${mix(0)}, ${mix(1)}, ${mix(2)})`;
}
