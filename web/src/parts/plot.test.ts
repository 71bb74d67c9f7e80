import { expect, it } from 'vitest';
import { nice, stack } from './plot';

it('stacks areas, keeps gaps as gaps, leaves lines alone', () => {
  const lines = [
    { label: 'user', color: '', values: [1, null, 3], stacked: true },
    { label: 'system', color: '', values: [1, null, 1], stacked: true },
    { label: 'line', color: '', values: [9, 9, null] },
  ];
  expect(stack(lines)).toEqual([[1, null, 3], [2, null, 4], [9, 9, null]]);
});

it('ends an axis a little above the largest value', () => {
  expect([0, 0.7, 95, 100, 395, 800].map(nice)).toEqual([1, 0.8, 100, 150, 500, 1000].map((value) => expect.closeTo(value, 6) as number));
});
