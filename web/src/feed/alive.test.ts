import { expect, it } from 'vitest';
import { aliveOf } from './feed.svelte';

const limits = { balanced_ratio: 0.005, late_intervals: 2.5, late_ns: 3e9, silent_intervals: 10, silent_ns: 15e9 };

it('calls no host late before it knows the limits', () => {
  expect(aliveOf(1e9, 1_000, null)).toBe('reporting');
});

it('draws the line where the receiver draws it', () => {
  expect([0, 3_000, 3_001, 15_000, 15_001].map((age) => aliveOf(age, 1_000, limits))).toEqual([
    'reporting',
    'reporting',
    'late',
    'late',
    'silent',
  ]);
  expect([25_000, 25_001, 100_000, 100_001].map((age) => aliveOf(age, 10_000, limits))).toEqual([
    'reporting',
    'late',
    'late',
    'silent',
  ]);
});
