// @vitest-environment jsdom
import { fireEvent, render, screen } from '@testing-library/svelte';
import { expect, it, vi } from 'vitest';
import type { ProcessPage } from '../lib/api';
import type { Range } from '../lib/range.svelte';
import { waitWords } from '../lib/receiver.svelte';
import ProcessHead from './ProcessHead.svelte';
import ProcessSums from './ProcessSums.svelte';

const second = (nth: number): number => Date.UTC(2026, 6, 1, 10, 0, nth);
const ns = (nth: number): string => `${second(nth)}000000`;

function page(line: object, process: object = {}, waits: unknown = []): ProcessPage {
  return {
    begin_ns: '0',
    width_ns: 1e9,
    covered_ns: [1e9, 1e9],
    gaps: [],
    process: { name: 'encoder', pid: 20, parent_pid: 1, uid: 0, ...process },
    lines: [{ columns: {}, first_ns: ns(10), last_ns: ns(30), ...line }],
    waits,
  } as unknown as ProcessPage;
}

const set = vi.fn();
const range = { sinceMs: second(0), untilMs: second(59), lengthMs: 59_000, set } as unknown as Range;
const head = (of: ProcessPage | null) => render(ProcessHead, { process: '20-9', page: of, range });

it('says when a process began and when it ended, as far as that is known', async () => {
  const { rerender } = head(page({ began_ns: ns(9), ended_ns: ns(31) }));
  const region = screen.getByRole('region', { name: 'process' });
  expect(region.textContent).toMatch(/began .*2026-07-01.*active .* ended .*2026-07-01/s);
  expect(region.textContent).toContain('uid 0 (root)');
  await rerender({ page: page({}) });
  expect(region.textContent).not.toMatch(/began|ended/);
});

it('shows its key until the receiver knows its name', () => {
  head(null);
  expect(screen.getByRole('heading').textContent).toBe('20-9');
});

it('shows session, priority class and product of a process of Windows, and neither on other systems', async () => {
  const { rerender } = head(page({}, { session: 0, priority_class: 'above normal', product: 'Größe\u{202e} 3' }));
  const region = screen.getByRole('region', { name: 'process' });
  expect(region.textContent).toContain('· session 0 · priority above normal · product Größe');
  await rerender({ page: page({}, { session: null, priority_class: null, product: null }) });
  expect(region.textContent).not.toMatch(/session|priority|product/);
});

it('fits the span to its activity', async () => {
  head(page({}));
  await fireEvent.click(screen.getByRole('button', { name: 'Fit' }));
  expect(set).toHaveBeenCalledWith(second(10) - 1500, second(30) + 1500);
});

it('leads to the live view while the process is alive', async () => {
  const { rerender } = head(page({}));
  expect(screen.queryByRole('link', { name: 'Watch live' })).toBeNull();
  await rerender({ isAlive: true });
  const link = new URL(screen.getByRole('link', { name: 'Watch live' }).getAttribute('href')!, location.origin);
  expect(Object.fromEntries(link.searchParams)).toEqual({ q: '20', sel: '20-9' });
});

it('cuts a long command line until it is asked for', async () => {
  head(page({}, { cmdline: `java ${'x'.repeat(400)}` }));
  const button = screen.getByRole('button', { name: 'whole command line' });
  expect(button.getAttribute('aria-expanded')).toBe('false');
  await fireEvent.click(button);
  expect(screen.getByRole('button', { name: 'less of the command line' })).toBeTruthy();
});

it('shows the blocked time of a process whose reasons were not measured', () => {
  render(ProcessSums, { page: page({ columns: { blocked_ns: [2e9, 0] } }) });
  expect(screen.getByRole('region', { name: 'wait reasons' }).textContent).toContain(
    'It was blocked for 2.00 s; the reasons were not measured.',
  );
});

it('says what is not measured, and what did not happen', () => {
  render(ProcessSums, { page: page({ columns: {} }) });
  expect(screen.getByRole('region', { name: 'wait reasons' }).textContent).toContain('not measured by this source');
  render(ProcessSums, { page: page({ columns: { blocked_ns: [0, 0] } }) });
  expect(screen.getAllByRole('region', { name: 'wait reasons' })[1]!.textContent).toContain('it never blocked');
});

it('lists what it waited for, a CPU too, with the shares of its time', () => {
  const waits = [
    { reason: 'futex', total_ns: 3e9, values: [] },
    { reason: 'disk', total_ns: 1e9, values: [] },
  ];
  waitWords.known = { futex: 'lock' };
  const columns = { run_ns: [1e9, 0], run_delay_ns: [3e9, 2e9], blocked_ns: [4e9, 0] };
  render(ProcessSums, { page: page({ columns }, {}, waits) });
  // Of all time, not of the blocked time: who is mostly ready does not wait for the lock.
  expect(screen.getAllByRole('listitem').map((item) => item.textContent?.trim())).toEqual([
    'ready5.00 s50.0 %',
    'lock (futex)3.00 s30.0 %',
    'disk1.00 s10.0 %',
  ]);
});
