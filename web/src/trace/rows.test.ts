// @vitest-environment jsdom
// Rows of the timeline: where they are, and the short form of many numbers.
import { expect, it } from 'vitest';
import { chosenOf, fitting, heightOf, rangesOf, rowAt, rowsOf } from './rows';

it('rows are found by their place', () => {
  const rows = rowsOf([0, 1, 4], []);
  expect(heightOf(rows)).toBe(78);
  expect(rowAt(rows, 30)?.id).toBe(1);
  expect(rowAt(rows, 300)).toBeUndefined();
});

it('numbers are written as ranges and read again', () => {
  expect(rangesOf([7, 0, 1, 2])).toBe('0-2,7');
  expect(chosenOf('0-2, 7', [0, 1, 2, 3, 7, 8])).toEqual([0, 1, 2, 7]);
  expect(chosenOf('x', [0, 1])).toEqual([0, 1]);
  expect(chosenOf('5', [0, 1])).toEqual([]);
});

it('a name is cut with a mark, and a number that does not fit is left out', () => {
  const fits = (name: string, number: string): string[] => fitting(name, number, 62, (text) => text.length * 6);
  expect(fits('cc1', '1234')).toEqual(['cc1', '1234']);
  expect(fits('python3', '31796')).toEqual(['python3', '']);
  expect(fits('lto cgu.0.rcgu.', '14231')).toEqual(['lto cgu.0…', '']);
  expect(fits('CPU 0', '')).toEqual(['CPU 0', '']);
});
