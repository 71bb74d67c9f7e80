import { expect, it } from 'vitest';
import type { ProcessPage } from './api';
import { delaysOf, lifeMark, statesOf, totalsOf, type Colors } from './process-figures';

const colors: Colors = { named: (name) => name, nth: (nth) => `line ${nth}` };

function page(columns: Record<string, (number | null)[]>): ProcessPage {
  return {
    begin_ns: '0',
    width_ns: 1e9,
    covered_ns: [1e9, 1e9, 0, 1e9],
    gaps: [],
    resolution: 'interval',
    lines: [{ columns, max_run_ns_per_s: [null, 5e8, null, 0] }],
    waits: [],
  } as unknown as ProcessPage;
}

it('draws a process from its start on, as zero where it was idle and as nothing in a hole', () => {
  const data = statesOf(page({ user_ns: [null, 2e8, null, 0], run_ns: [null, 2e8, null, 0] }), false, colors);
  const user = data.lines.find((line) => line.label === 'user')!;
  expect(user.values).toEqual([null, 20, null, 0]);
  expect(data.lines.at(-1)).toMatchObject({ label: 'largest run', color: '--dim', values: [null, 50, null, 0] });
  expect(data.absences?.map((gap) => gap.reason)).toEqual(['not started yet']);
  expect(data.gaps.map((gap) => gap.reason)).toEqual(['no data']);
});

it('draws blocked time only where it is wanted', () => {
  const of = page({ blocked_ns: [1, 1, 1, 1], run_ns: [1, 1, 1, 1] });
  const labels = (withBlocked: boolean) => statesOf(of, withBlocked, colors).lines.map((line) => line.label);
  expect([labels(false).includes('blocked'), labels(true).includes('blocked')]).toEqual([false, true]);
});

it('draws only percentiles that were measured, each in its own colour', () => {
  const of = page({ run_delay_p50_ns: [null, null, null, null], longest_run_delay_ns: [null, 3e6, null, 0] });
  const data = delaysOf(of, colors);
  expect(data.lines.every((line) => line.values.length === 4)).toBe(true);
  expect(data.lines.some((line) => line.color === 'line 0')).toBe(false);
});

it('sums up the span, and says what is not measured', () => {
  const of = page({
    run_ns: [null, 3e8, null, 3e8],
    run_delay_ns: [null, 1e6, null, 1e6],
    voluntary_switches: [null, 3, null, 0],
    involuntary_switches: [null, 1, null, 0],
    longest_run_delay_ns: [null, 7e5, null, 2e5],
  });
  const totals = Object.fromEntries(totalsOf(of, of.lines[0]!).map(({ label, value }) => [label, value]));
  expect(totals).toMatchObject({
    run: '600 ms · 20.0 %',
    user: 'not measured',
    'mean delay': '500 µs',
    'max delay': '700 µs',
    switches: '3 voluntary, 1 involuntary',
  });
});

it('has nothing to draw before the answer', () => {
  expect(statesOf(null, true, colors).lines).toEqual([]);
  expect(delaysOf(null, colors).times).toEqual([]);
});

it('marks what began and what ended', () => {
  expect(['alive', 'born', 'ended', 'born_ended'].map((life) => lifeMark(life))).toEqual(['', '+', '†', '‡']);
});
