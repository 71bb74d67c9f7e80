// @vitest-environment jsdom
import { fireEvent, render, screen } from '@testing-library/svelte';
import { tick } from 'svelte';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ANSWER } from '../../tests/why-answer';
import type { Why } from '../lib/api';
import { route } from '../lib/route.svelte';
import { forgetWhy } from '../lib/why';
import WhyDialog from './WhyDialog.svelte';

const asked: string[] = [];

function answer(body: unknown, status = 200): void {
  vi.stubGlobal('fetch', (url: string) => {
    asked.push(url);
    return Promise.resolve(Response.json(body, { status }));
  });
}

beforeEach(() => {
  asked.length = 0;
  route.set({ why: 'process:7', when: '1000-2500', tz: 'utc' });
});
afterEach(() => {
  vi.unstubAllGlobals();
  forgetWhy();
});

it('has the five blocks, in the words of the receiver', async () => {
  answer(ANSWER);
  const onclose = vi.fn();
  render(WhyDialog, { host: 'vm', onclose });
  expect(screen.getByRole('status').textContent).toContain('Finding the cause.');
  expect(await screen.findByText(ANSWER.summary[0]!)).toBeTruthy();
  expect(asked).toEqual(['/api/v1/hosts/vm/why?since=1000000000&until=2500000000&name=7']);
  expect(screen.getAllByRole('heading', { level: 2 }).map((one) => one.textContent?.trim())).toEqual([
    'Why',
    'Do',
    'Timebefore: 00:00:00 to 00:01:00',
    'Sure',
    'More',
  ]);
  const text = screen.getByRole('dialog').textContent ?? '';
  expect(text).toMatch(/<b>shop<\/b> on vm, 2026-01-01 00:01:00 to 00:02:00 \(60\.0 s\): 1 process, 2 threads/);
  expect(text).toContain('Slow since 00:01:00.');
  expect(text).toContain('Not measured: page faults.');
  expect(text).toContain('cpumon top --at 2026-01-01T00:01:30Z');
  expect(screen.getAllByRole('row').map((row) => Array.from(row.children, (cell) => cell.textContent?.trim()))).toEqual(
    [
      ['state', 'now', 'before', 'with'],
      ['ran', '21 %', '78 %', ''],
      ['ready', '74 %', '19 %', 'mostly behind <img src=x>'],
      ['asleep: sleep (clock_nanosleep)', '0.6 %', '3 %', 'by itself'],
    ],
  );
  expect(screen.getByText('chrt')).toBeTruthy();
  expect(screen.getByRole('button', { name: 'Copy' })).toBeTruthy();
  await fireEvent.click(screen.getByRole('button', { name: 'Close' }));
  expect(onclose).toHaveBeenCalledOnce();
});

it('what nothing delays has no command and no time before', async () => {
  const healthy: Why = {
    ...ANSWER,
    subject: { by: null, name: 'vm', processes: 3 },
    causes: [],
    slow_since_ns: null,
    summary: ['Nothing is short: the CPUs were idle 61 % of the time, and programs waited for a CPU 4 %.'],
    before: null,
  };
  answer(healthy);
  route.set({ why: 'machine', when: undefined });
  render(WhyDialog, { host: 'vm', onclose: vi.fn() });
  expect(await screen.findByText(healthy.summary[0]!)).toBeTruthy();
  expect(asked).toEqual(['/api/v1/hosts/vm/why']);
  expect(screen.getByRole('dialog').textContent).toContain('The machine on vm, 2026-01-01');
  expect(screen.queryByRole('button', { name: 'Copy' })).toBeNull();
  expect(screen.queryByText(/^Slow since/)).toBeNull();
  expect(screen.getAllByRole('columnheader').map((one) => one.textContent?.trim())).toEqual(['state', 'now', 'with']);
});

it('a refusal has the words of the receiver', async () => {
  answer({ title: 'Not Found', status: 404, detail: 'No process 7 did anything in this range.', how: '' }, 404);
  render(WhyDialog, { host: 'vm', onclose: vi.fn() });
  expect(await screen.findByText('No answer')).toBeTruthy();
  expect(screen.getByText('No process 7 did anything in this range.')).toBeTruthy();
});

it('the same question is not asked again where other settings change', async () => {
  answer(ANSWER);
  render(WhyDialog, { host: 'vm', onclose: vi.fn() });
  await screen.findByText(ANSWER.summary[0]!);
  route.set({ sel: '7-9' });
  await tick();
  expect(asked).toHaveLength(1);
  route.set({ sel: undefined, why: 'process:8' });
  await vi.waitFor(() => expect(asked).toHaveLength(2));
  expect(asked[1]).toContain('name=8');
});
