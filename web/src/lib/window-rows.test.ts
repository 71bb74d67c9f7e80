import { expect, it } from 'vitest';
import { rowsInSight, scrolledTo } from './window-rows';

it('keeps a few rows around those in sight', () => {
  expect(rowsInSight(0, 300, 30)).toEqual([0, 15]);
  expect(rowsInSight(3000, 300, 30)).toEqual([95, 115]);
});

it('scrolls only as far as a row needs', () => {
  expect(scrolledTo(3, 0, 300, 30)).toBe(0);
  expect(scrolledTo(1, 90, 300, 30)).toBe(30);
  // Row 20 ends at 630, and the headings take 30.
  expect(scrolledTo(20, 0, 300, 30)).toBe(360);
});
