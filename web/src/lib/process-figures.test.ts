import { expect, it } from 'vitest';
import type { ProcessPage } from './api';
import { totalsOf } from './process-figures';

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
    switches: '3 to wait, 1 pushed off',
  });
});
