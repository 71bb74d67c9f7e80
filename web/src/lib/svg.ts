// Charts as SVG and PNG. In: lines or a matrix, with what they are of. Out: a document that can stand alone: title, unit, legend, axes,
// holes with their reason. Why: what is on screen can go into a report, sharp at any size.
import type { Gap } from './api';
import { nice, stack, type PlotData, type PlotLine } from '../parts/plot';
import { clock, day, fixed, visible, zoneName, type Zone } from './format';

const WIDTH = 1200;
const HEIGHT = 360;
const LEFT = 56;
const RIGHT = 16;
const BOTTOM = 30;
/** Title and unit. */
const HEAD = 40;
const LEGEND_LINE = 20;

/** What a chart tells beside its values. */
export interface Caption {
  title: string;
  unit: string;
  zone: Zone;
}

export interface Chart {
  data: PlotData;
  /** Seconds; null: from the first value to the last. */
  range: [number, number] | null;
  /** End of the value axis, if it does not follow the values. */
  max?: number | undefined;
}

export interface Heat {
  times: readonly number[];
  widthS: number;
  rows: readonly { name: string; values: readonly (number | null)[] }[];
  gaps: readonly Gap[];
  most: number;
}

export function escapeXml(text: string): string {
  return visible(text).replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}

type Place = (value: number) => number;

/** The lines of a plot; areas are drawn from the top of the stack down. */
export function plotSvg({ data, range, max }: Chart, caption: Caption): string {
  const { times, lines } = data;
  const [first, last] = range ?? [times[0] ?? 0, times.at(-1) ?? 1];
  const values = stack(lines);
  const most = max ?? nice(values.flat().reduce<number>((highest, value) => Math.max(highest, value ?? 0), 0));
  const legend = legendOf(lines);
  const top = HEAD + legend.height;
  const height = top + HEIGHT;
  const x: Place = (seconds) => LEFT + ((seconds - first) / Math.max(last - first, 1e-9)) * (WIDTH - LEFT - RIGHT);
  const y: Place = (value) => top + (1 - value / most) * (HEIGHT - BOTTOM);
  const frame = `<clipPath id="frame"><rect x="${LEFT}" y="${top}" width="${WIDTH - LEFT - RIGHT}" height="${HEIGHT - BOTTOM}"/></clipPath>`;
  const parts = [frame, ...valueAxis(most, y), ...holes(data.gaps, x, [LEFT, WIDTH - RIGHT], [top, HEIGHT - BOTTOM])];
  parts.push('<g clip-path="url(#frame)">');
  for (let nth = lines.length - 1; nth >= 0; nth -= 1) parts.push(path(times, values[nth]!, lines[nth]!, x, y));
  parts.push('</g>', ...legend.parts, ...timeAxis(first, last, x, height - 10, caption.zone));
  return svg(parts, height, caption);
}

function valueAxis(most: number, y: Place): string[] {
  return [0, 1, 2, 3, 4].flatMap((tick) => {
    const value = (most * tick) / 4;
    return [
      `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(value)}" y2="${y(value)}" stroke="#d5dbe1"/>`,
      `<text x="${LEFT - 6}" y="${y(value) + 4}" text-anchor="end">${Number(value.toPrecision(4))}</text>`,
    ];
  });
}

function timeAxis(first: number, last: number, x: Place, y: number, zone: Zone): string[] {
  const withDay = last - first > 86_400;
  return [0, 1, 2, 3, 4, 5, 6].map((tick) => {
    const at = first + ((last - first) * tick) / 6;
    const anchor = tick === 0 ? 'start' : tick === 6 ? 'end' : 'middle';
    return `<text x="${x(at).toFixed(1)}" y="${y}" text-anchor="${anchor}">${withDay ? `${day(at * 1000, zone).slice(5)} ` : ''}${clock(at * 1000, zone)}</text>`;
  });
}

/** Grey, and why where there is room. */
function holes(gaps: readonly Gap[], x: Place, [left, right]: [number, number], [top, height]: [number, number]): string[] {
  return gaps.flatMap((gap) => {
    const from = Math.max(x(gap.begin_ms / 1000), left);
    const to = Math.min(x(gap.end_ms / 1000), right);
    if (!(to > from)) return [];
    const why = escapeXml(gap.reason);
    const hole = `<rect x="${from.toFixed(1)}" y="${top}" width="${(to - from).toFixed(1)}" height="${height}" fill="#eceff2"><title>${why}</title></rect>`;
    const fits = to - from > gap.reason.length * 7;
    return fits ? [hole, `<text x="${((from + to) / 2).toFixed(1)}" y="${top + height / 2}" text-anchor="middle" fill="#52606f">${why}</text>`] : [hole];
  });
}

function legendOf(lines: readonly PlotLine[]): { parts: string[]; height: number } {
  let [x, row] = [LEFT, 0];
  const parts = lines.flatMap((line) => {
    const label = visible(line.label).slice(0, 60);
    const width = 34 + label.length * 7.2;
    if (x + width > WIDTH - RIGHT && x > LEFT) [x, row] = [LEFT, row + 1];
    const [left, top] = [x, HEAD + row * LEGEND_LINE];
    x += width;
    return [`<rect x="${left}" y="${top - 6}" width="10" height="10" rx="2" fill="${line.color}"/>`, `<text x="${left + 15}" y="${top + 3}">${escapeXml(label)}</text>`];
  });
  return { parts, height: (row + 1) * LEGEND_LINE };
}

function path(times: readonly number[], values: readonly (number | null)[], line: PlotLine, x: Place, y: Place): string {
  const runs: { points: string[]; from: number; to: number }[] = [];
  let run: (typeof runs)[number] | null = null;
  values.forEach((value, at) => {
    if (value === null || value === undefined) {
      run = null;
      return;
    }
    const time = times[at]!;
    if (!run) runs.push((run = { points: [], from: time, to: time }));
    run.to = time;
    run.points.push(`${x(time).toFixed(1)},${y(value).toFixed(1)}`);
  });
  const base = y(0).toFixed(1);
  return runs
    .map(({ points, from, to }) => {
      if (line.stacked) return `<polygon points="${x(from).toFixed(1)},${base} ${points.join(' ')} ${x(to).toFixed(1)},${base}" fill="${line.color}"/>`;
      return `<polyline points="${points.join(' ')}" fill="none" stroke="${line.color}" stroke-width="1.5"${line.dashed ? ' stroke-dasharray="4 4"' : ''}/>`;
    })
    .join('');
}

/** Rows by time; the scale stands above. */
export function heatSvg(heat: Heat, color: (share: number) => string, caption: Caption): string {
  const [left, rowHeight, top] = [200, 16, HEAD + 20];
  const height = top + heat.rows.length * rowHeight + BOTTOM;
  const first = heat.times[0] ?? 0;
  const last = (heat.times.at(-1) ?? 0) + heat.widthS;
  const x: Place = (seconds) => left + ((seconds - first) / Math.max(last - first, 1e-9)) * (WIDTH - left - RIGHT);
  const cell = (WIDTH - left - RIGHT) / Math.max(heat.times.length, 1);
  const parts = scaleOf(heat.most, color, left);
  heat.rows.forEach((row, nth) => {
    const at = top + nth * rowHeight;
    parts.push(`<text x="${left - 8}" y="${at + 12}" text-anchor="end">${escapeXml(shortened(row.name))}</text>`);
    row.values.forEach((value, column) => {
      if (value === null) return;
      parts.push(`<rect x="${(left + column * cell).toFixed(1)}" y="${at}" width="${(cell + 0.3).toFixed(1)}" height="${rowHeight - 1}" fill="${color(value / heat.most)}"/>`);
    });
  });
  parts.push(...holes(heat.gaps, x, [left, WIDTH - RIGHT], [top, heat.rows.length * rowHeight]), ...timeAxis(first, last, x, height - 10, caption.zone));
  return svg(parts, height, caption);
}

/** What stands left of a row, in a font that need not be ours. */
function shortened(name: string): string {
  return name.length > 24 ? `${name.slice(0, 23)}…` : name;
}

function scaleOf(most: number, color: (share: number) => string, left: number): string[] {
  const steps = [0, 0.05, 0.15, 0.3, 0.5, 0.75, 1];
  const boxes = steps.map((share, nth) => `<rect x="${left + 14 + nth * 18}" y="${HEAD - 6}" width="17" height="10" fill="${color(share)}"/>`);
  return [`<text x="${left}" y="${HEAD + 3}">0</text>`, ...boxes, `<text x="${left + 20 + steps.length * 18}" y="${HEAD + 3}">${fixed(most, 0)}</text>`];
}

function svg(parts: string[], height: number, { title, unit, zone }: Caption): string {
  const head = `<text x="12" y="20" font-size="14" font-weight="600" fill="#17202b">${escapeXml(title)}</text>` +
    `<text x="${WIDTH - RIGHT}" y="20" text-anchor="end">${escapeXml(unit)} · times ${escapeXml(zoneName(zone))}</text>`;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" font-family="Inter, system-ui, sans-serif" font-size="12" fill="#3c4854">` +
    `<title>${escapeXml(title)}</title><rect width="100%" height="100%" fill="#fff"/>${head}${parts.join('')}</svg>`
  );
}

/** The same document as pixels, two for each of its own. */
export async function pngOf(document: string): Promise<Blob | null> {
  const address = URL.createObjectURL(new Blob([document], { type: 'image/svg+xml' }));
  try {
    const picture = new Image();
    picture.src = address;
    await picture.decode();
    const canvas = new OffscreenCanvas(picture.naturalWidth * 2, picture.naturalHeight * 2);
    canvas.getContext('2d')?.drawImage(picture, 0, 0, canvas.width, canvas.height);
    return await canvas.convertToBlob({ type: 'image/png' });
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** Hands a file to the user. */
export function save(name: string, content: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
