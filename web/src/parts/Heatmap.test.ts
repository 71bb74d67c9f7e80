// @vitest-environment jsdom
import { fireEvent, render, screen } from '@testing-library/svelte';
import { beforeEach, expect, it, vi } from 'vitest';
import Heatmap from './Heatmap.svelte';

const row = (key: string, values: (number | null)[]) => ({ key, name: `program ${key}`, values });
const usual = {
  over: { begin_ns: `${100e9}`, width_ns: 10e9, covered_ns: [1, 1, 0, 1] },
  rows: [row('a', [0, 50, null, 100]), row('b', [null, 5, null, null])],
  gaps: [{ begin_ms: 120_000, end_ms: 130_000, intervals: 1, reason: 'restart' }],
  unit: '%CPU',
  label: 'programs by time',
};
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
  render(Heatmap, { ...usual, over: { ...usual.over, covered_ns: [1, 1] }, rows: [row('a', [0, 1])] });
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
  const over = { ...usual.over, width_ns: 5e9, covered_ns: values };
  await rerender({ ...usual, over, rows: [row('b', values), row('a', values)] });
  expect(left(container)).toBe('37.5%');
  expect(readout()).toContain('program a');
});

it('opens the cell under the cursor', async () => {
  const onpick = vi.fn();
  render(Heatmap, { ...usual, onpick });
  await press('Home', 'ArrowRight', 'Enter');
  expect(onpick).toHaveBeenCalledWith(usual.rows[0], 110, 120);
});
