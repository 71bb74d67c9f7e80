// @vitest-environment jsdom
import { render, screen } from '@testing-library/svelte';
import { expect, it } from 'vitest';
import { receiver } from '../lib/receiver.svelte';
import Ledger from './Ledger.svelte';

const SECOND = 1e9;
receiver.limits = { balanced_ratio: 0.005, late_intervals: 2.5, late_ns: 3e9, silent_intervals: 10, silent_ns: 15e9 };
const summary = { capacity_ns: 2 * SECOND, run_ns: SECOND, idle_ns: SECOND, unattributed_ns: 0, irq_in_run_time: 0 };

it('adds up to the capacity, and says that it is balanced', () => {
  render(Ledger, { summary });
  const ledger = screen.getByRole('region', { name: 'ledger' });
  expect(ledger.textContent).toContain('2.00 s');
  expect(ledger.textContent).toContain('✓ balanced');
});

it('warns when more than half a percent is unattributed', () => {
  render(Ledger, { summary: { ...summary, unattributed_ns: 0.02 * SECOND, unknown_ns: 0.01 * SECOND } });
  const ledger = screen.getByRole('region', { name: 'ledger' });
  expect(ledger.textContent).toContain('✗ not balanced');
  expect(ledger.textContent).toContain('of which unknown');
  expect(ledger.querySelectorAll('.warn').length).toBeGreaterThan(0);
});

it('has no sum where the CPUs were not measured', () => {
  render(Ledger, { summary: {} });
  expect(screen.getByText(/does not measure the CPUs/)).toBeTruthy();
  expect(screen.queryByRole('img')).toBeNull();
});

it('names interrupts that are part of the time of threads', () => {
  render(Ledger, { summary: { ...summary, irq_in_run_time: 1 } });
  expect(screen.getAllByText('in threads').length).toBe(2);
});
