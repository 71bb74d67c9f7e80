import { expect, it } from 'vitest';
import { aliveOf } from './alive';

it('draws the line where the receiver draws it', () => {
  expect([0, 3_000, 3_001, 15_000, 15_001].map((age) => aliveOf(age, 1_000))).toEqual([
    'reporting',
    'reporting',
    'late',
    'late',
    'silent',
  ]);
  expect([25_000, 25_001, 100_000, 100_001].map((age) => aliveOf(age, 10_000))).toEqual([
    'reporting',
    'late',
    'late',
    'silent',
  ]);
});
