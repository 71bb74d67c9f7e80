// @vitest-environment jsdom
import { fireEvent, render, screen } from '@testing-library/svelte';
import { beforeEach, expect, it, vi } from 'vitest';
import type { Chart, HeatmapRow } from '../lib/api';
import Heatmap from './Heatmap.svelte';

const row = (key: string, values: (number | null)[]): HeatmapRow => ({
  ...{ key, name: `program ${key}`, values, highest: [] },
});
/** From 100 s on, with these rows; `covered`: what was measured of each point. */
function chart(rows: HeatmapRow[], covered: number[], width_ms = 10_000): Chart {
  const begin_ms = covered.map((_, at) => 100_000 + at * width_ms);
  return {
    ...{ title: '', unit: '%CPU: 100 = one CPU', since_ms: 100_000, until_ms: 140_000, absences: [], notes: [] },
    times: { begin_ms, width_ms, covered_ms: covered },
    body: { kind: 'heatmap', rows, cells: 'mean', max: 100 },
    holes: [{ begin_ms: 120_000, end_ms: 130_000, reason: 'restart' }],
  };
}
const rows = [row('a', [0, 50, null, 100]), row('b', [null, 5, null, null])];
const usual = { chart: chart(rows, [1, 1, 0, 1]), label: 'programs by time' };
const board = (): HTMLElement => screen.getByRole('application', { name: 'programs by time' });
const readout = (): string => screen.getByRole('status').textContent ?? '';
const press = (...keys: string[]): Promise<unknown> =>
  keys.reduce<Promise<unknown>>((done, key) => done.then(() => fireEvent.keyDown(board(), { key })), Promise.resolve());
const left = (of: HTMLElement): string => of.querySelector<HTMLElement>('.cursor')?.style.left ?? 'none';

beforeEach(() => {
  HTMLCanvasElement.prototype.getContext = (() => null) as never;
  HTMLElement.prototype.scrollIntoView = () => undefined;
});

it('keeps zero, no data and not running apart, under the cursor and in the legend', async () => {
  render(Heatmap, usual);
  await press('Home');
  expect(readout()).toContain('0.0 %CPU');
  await press('ArrowDown');
  expect(readout()).toMatch(/program b.*– not running/s);
  await press('ArrowRight', 'ArrowRight');
  expect(readout()).toMatch(/– restart/);
  await press('ArrowRight');
  expect(readout()).toMatch(/– not running/);
  const legend = screen.getByRole('status').querySelector('.scale')!.textContent!;
  expect(legend).toMatch(/0.*100 %CPU.*not running.*no data/s);
});

it('names in the legend only what there is', () => {
  render(Heatmap, { ...usual, chart: chart([row('a', [0, 1])], [1, 1]) });
  const legend = screen.getByRole('status').querySelector('.scale')!.textContent!;
  expect(legend).not.toMatch(/not running|no data/);
});

it('is walked in steps and to its ends', async () => {
  const { container } = render(Heatmap, usual);
  await press('End');
  expect(left(container)).toBe('75%');
  await press('PageUp');
  expect(left(container)).toBe('50%');
  await press('Home', 'ArrowLeft');
  expect(left(container)).toBe('0%');
  await press('Escape');
  expect(left(container)).toBe('none');
});

it('keeps the moment that is pointed at when other columns come', async () => {
  const { container, rerender } = render(Heatmap, usual);
  await press('End', 'ArrowLeft', 'ArrowLeft');
  expect(left(container)).toBe('25%');
  // Twice as many columns in another order of rows: the middle of 110 to 120 is in the fourth column.
  const values = Array.from({ length: 8 }, () => 1);
  await rerender({ ...usual, chart: chart([row('b', values), row('a', values)], values, 5_000) });
  expect(left(container)).toBe('37.5%');
  expect(readout()).toContain('program a');
});

it('opens the cell under the cursor', async () => {
  const onpick = vi.fn();
  render(Heatmap, { ...usual, onpick });
  await press('Home', 'ArrowRight', 'Enter');
  expect(onpick).toHaveBeenCalledWith(rows[0], 110, 120);
});
