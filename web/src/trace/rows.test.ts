// Rows of the timeline: where they are, and the short form of many numbers.
import { expect, it } from 'vitest';
import { chosenOf, heightOf, rangesOf, rowAt, rowsOf, visibleRows } from './rows';

it('rows are found by their place, and only those on screen are drawn', () => {
  const rows = rowsOf([0, 1, 4], []);
  expect(heightOf(rows)).toBe(78);
  expect(rowAt(rows, 30)?.id).toBe(1);
  expect(rowAt(rows, 300)).toBeUndefined();
  expect(visibleRows(rows, 27, 20).map((row) => row.id)).toEqual([1]);
});

it('numbers are written as ranges and read again', () => {
  expect(rangesOf([7, 0, 1, 2])).toBe('0-2,7');
  expect(chosenOf('0-2, 7', [0, 1, 2, 3, 7, 8])).toEqual([0, 1, 2, 7]);
  expect(chosenOf('x', [0, 1])).toEqual([0, 1]);
  expect(chosenOf('5', [0, 1])).toEqual([]);
});
