// Charts as SVG. In: lines or a matrix. Out: an SVG document. Why: what is on screen can go into a report, sharp at any size.
import type { PlotData } from '../parts/plot';
import { nice, stack } from '../parts/plot';
import { clock, visible, type Zone } from './format';

const WIDTH = 1200;
const HEIGHT = 360;
const LEFT = 56;
const BOTTOM = 28;
const TOP = 30;

export function escapeXml(text: string): string {
  return visible(text).replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}

/** The lines of a plot; areas are drawn from the top of the stack down. */
export function plotSvg(data: PlotData, zone: Zone, title: string): string {
  const { times, lines } = data;
  const first = times[0] ?? 0;
  const last = times.at(-1) ?? 1;
  const values = stack(lines);
  const most = nice(values.flat().reduce<number>((max, value) => Math.max(max, value ?? 0), 0));
  const x = (seconds: number): number => LEFT + ((seconds - first) / Math.max(last - first, 1e-9)) * (WIDTH - LEFT - 12);
  const y = (value: number): number => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM);
  const parts: string[] = [];
  for (let tick = 0; tick <= 4; tick += 1) {
    const value = (most * tick) / 4;
    parts.push(`<line x1="${LEFT}" x2="${WIDTH - 12}" y1="${y(value)}" y2="${y(value)}" stroke="#d5dbe1"/>`);
    parts.push(`<text x="${LEFT - 6}" y="${y(value) + 4}" text-anchor="end">${Number(value.toPrecision(4))}</text>`);
  }
  for (let tick = 0; tick <= 6; tick += 1) {
    const at = first + ((last - first) * tick) / 6;
    parts.push(`<text x="${x(at)}" y="${HEIGHT - 8}" text-anchor="middle">${clock(at * 1000, zone)}</text>`);
  }
  for (const gap of data.gaps) {
    const from = Math.max(x(gap.begin_ms / 1000), LEFT);
    const to = Math.min(x(gap.end_ms / 1000), WIDTH - 12);
    if (to > from) parts.push(`<rect x="${from.toFixed(1)}" y="${TOP}" width="${(to - from).toFixed(1)}" height="${HEIGHT - TOP - BOTTOM}" fill="#eceff2"><title>${escapeXml(gap.reason)}</title></rect>`);
  }
  for (let nth = lines.length - 1; nth >= 0; nth -= 1) parts.push(path(times, values[nth]!, lines[nth]!, x, y));
  lines.forEach((line, nth) => {
    parts.push(`<rect x="${LEFT + nth * 140}" y="8" width="10" height="10" rx="2" fill="${line.color}"/>`);
    parts.push(`<text x="${LEFT + nth * 140 + 15}" y="17">${escapeXml(line.label.slice(0, 18))}</text>`);
  });
  return svg(parts, HEIGHT, title);
}

function path(
  times: readonly number[], values: readonly (number | null)[], line: PlotData['lines'][number], x: (s: number) => number, y: (v: number) => number,
): string {
  const runs: string[][] = [];
  let run: string[] = [];
  const ends: [number, number][] = [];
  let begin = 0;
  const close = (end: number): void => {
    if (run.length > 0) {
      runs.push(run);
      ends.push([begin, end]);
    }
    run = [];
  };
  values.forEach((value, at) => {
    if (value === null || value === undefined) return close(times[at - 1] ?? 0);
    if (run.length === 0) begin = times[at]!;
    run.push(`${x(times[at]!).toFixed(1)},${y(value).toFixed(1)}`);
  });
  close(times.at(-1) ?? 0);
  return runs
    .map((points, nth) => {
      if (!line.stacked) return `<polyline points="${points.join(' ')}" fill="none" stroke="${line.color}" stroke-width="1.5"${line.dashed ? ' stroke-dasharray="4 4"' : ''}/>`;
      const [from, to] = ends[nth]!;
      return `<polygon points="${x(from).toFixed(1)},${y(0)} ${points.join(' ')} ${x(to).toFixed(1)},${y(0)}" fill="${line.color}"/>`;
    })
    .join('');
}

export interface Heat {
  times: readonly number[];
  widthS: number;
  rows: readonly { name: string; values: readonly (number | null)[] }[];
  most: number;
}

export function heatSvg(heat: Heat, color: (share: number) => string, zone: Zone, title: string): string {
  const left = 200;
  const rowHeight = 16;
  const height = TOP + heat.rows.length * rowHeight + BOTTOM;
  const cell = (WIDTH - left - 12) / Math.max(heat.times.length, 1);
  const parts: string[] = [];
  heat.rows.forEach((row, nth) => {
    const top = TOP + nth * rowHeight;
    parts.push(`<text x="${left - 8}" y="${top + 12}" text-anchor="end">${escapeXml(row.name.slice(0, 30))}</text>`);
    row.values.forEach((value, at) => {
      if (value === null || value <= 0) return;
      parts.push(`<rect x="${(left + at * cell).toFixed(1)}" y="${top}" width="${(cell + 0.3).toFixed(1)}" height="${rowHeight - 1}" fill="${color(value / heat.most)}"/>`);
    });
  });
  for (let tick = 0; tick <= 6; tick += 1) {
    const at = Math.min(Math.floor((heat.times.length * tick) / 6), heat.times.length - 1);
    parts.push(`<text x="${left + at * cell}" y="${height - 8}" text-anchor="middle">${clock((heat.times[at] ?? NaN) * 1000, zone)}</text>`);
  }
  return svg(parts, height, title);
}

function svg(parts: string[], height: number, title: string): string {
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="Inter, system-ui, sans-serif" font-size="12" fill="#3c4854">` +
    `<title>${escapeXml(title)}</title><rect width="100%" height="100%" fill="#fff"/>${parts.join('')}</svg>`
  );
}

/** Hands a file to the user. */
export function save(name: string, content: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
