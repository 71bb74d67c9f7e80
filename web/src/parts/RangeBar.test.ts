// @vitest-environment jsdom
import { fireEvent, render, screen } from '@testing-library/svelte';
import { beforeEach, expect, it, vi } from 'vitest';
import { display } from '../lib/display.svelte';
import type { Range } from '../lib/range.svelte';
import RangeBar from './RangeBar.svelte';

const HOUR = 3_600_000;
const untilMs = Date.parse('2026-07-01T10:00:00Z');
const [set, last, move, zoom, toNow] = [vi.fn(), vi.fn(), vi.fn(), vi.fn(), vi.fn()];
const range = { sinceMs: untilMs - HOUR, untilMs, lengthMs: HOUR, set, last, move, zoom, toNow } as unknown as Range;

beforeEach(() => vi.clearAllMocks());

it('marks the length on screen and sets another', async () => {
  render(RangeBar, { range });
  expect(screen.getByRole('button', { name: '1 h' }).getAttribute('aria-pressed')).toBe('true');
  await fireEvent.click(screen.getByRole('button', { name: '6 h' }));
  expect(last).toHaveBeenCalledWith(6 * HOUR);
  expect(screen.queryByRole('button', { name: 'all data' })).toBeNull();
});

it('has of the end only what the beginning does not have', () => {
  const text = (sinceMs: number): string => {
    const { container } = render(RangeBar, { range: { ...range, sinceMs } as unknown as Range });
    return container.querySelector('.span')!.textContent;
  };
  const hours = (count: number): number => untilMs - count * HOUR;
  expect(text(hours(1))).toMatch(/^2026-07-01 ..:00:00 – ..:00:00 · 1 h$/);
  expect(text(hours(48))).toMatch(/^2026-06-29 ..:00:00 – 07-01 ..:00:00 · /);
  expect(text(hours(24 * 200))).toMatch(/^2025-12-13 ..:00:00 – 2026-07-01 ..:00:00 · /);
});

it('shows all data where some is stored', async () => {
  render(RangeBar, { range, kept: { firstMs: 1000, lastMs: 2000 } });
  await fireEvent.click(screen.getByRole('button', { name: 'all data' }));
  expect(set).toHaveBeenCalledWith(1000, 2000);
});

it('is a list on a phone, which shows any other length too', async () => {
  const wide = display.isNarrow;
  display.isNarrow = true;
  const kept = { firstMs: 1000, lastMs: 2000 };
  const { rerender } = render(RangeBar, { range, kept });
  const list = screen.getByRole<HTMLSelectElement>('combobox', { name: 'length of the time line' });
  const shown = (): string => list.selectedOptions[0]!.textContent;
  expect(shown()).toBe('1 h');
  await fireEvent.change(list, { target: { value: 'all' } });
  expect(set).toHaveBeenCalledWith(1000, 2000);
  await rerender({ range: { ...range, sinceMs: 1000, untilMs: 2000, lengthMs: 1000 } as unknown as Range, kept });
  expect(shown()).toBe('all data');
  await rerender({ range: { ...range, sinceMs: 1500, untilMs: 2500, lengthMs: 1000 } as unknown as Range, kept });
  expect(shown()).toBe('1.00 s');
  await fireEvent.change(list, { target: { value: String(6 * HOUR) } });
  expect(last).toHaveBeenCalledWith(6 * HOUR);
  display.isNarrow = wide;
});

it('moves and zooms with keys, around the shown moment', async () => {
  render(RangeBar, { range, markMs: untilMs - 1000 });
  for (const key of [',', '.', '+', '-', '[', ']']) await fireEvent.keyDown(window, { key });
  expect(move.mock.calls).toEqual([[-0.5], [0.5], [-0.5], [0.5]]);
  expect(zoom.mock.calls).toEqual([[0.5, untilMs - 1000], [2]]);
});

it('steps by intervals where single intervals are shown', async () => {
  const onstep = vi.fn();
  render(RangeBar, { range, onstep });
  await fireEvent.keyDown(window, { key: '[' });
  await fireEvent.keyDown(window, { key: ']' });
  expect(onstep.mock.calls).toEqual([['before'], ['after']]);
  expect(move).not.toHaveBeenCalled();
});

it('opens the dialog for a typed time range', async () => {
  render(RangeBar, { range });
  await fireEvent.keyDown(window, { key: 'b' });
  expect(await screen.findByRole('dialog', { name: 'Show the time' })).toBeTruthy();
});
