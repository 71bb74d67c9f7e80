import { expect, it } from 'vitest';
import { absencesOf, isAbsent } from './absence';

const buckets = (covered: number[]) => ({
  begin_ns: '0',
  width_ns: 1e9,
  covered_ns: covered,
});

it('keeps zero, no data and not running apart', () => {
  expect(isAbsent(0, 5)).toBe(false);
  expect(isAbsent(null, 0)).toBe(false);
  expect(isAbsent(null, 5)).toBe(true);
});

it('says of a task that it had not started, and that it has ended; a hole is neither', () => {
  const found = absencesOf([null, null, 3, 0, null, null, null], buckets([9, 9, 9, 9, 9, 0, 9]));
  expect(found.map((gap) => [gap.begin_ms, gap.end_ms, gap.reason])).toEqual([
    [0, 2000, 'not started yet'],
    [4000, 5000, 'ended'],
    [6000, 7000, 'ended'],
  ]);
});

it('says of a program that ran twice that it was not running in between', () => {
  const found = absencesOf([1, null, 1], buckets([9, 9, 9]));
  expect(found.map((gap) => gap.reason)).toEqual(['not running']);
});

it('does not say of a task that was never there that it has ended', () => {
  expect(absencesOf([null, null], buckets([9, 9])).map((gap) => gap.reason)).toEqual(['not running']);
  expect(absencesOf(undefined, buckets([9]))).toEqual([]);
});
