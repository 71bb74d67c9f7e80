import { expect, it } from 'vitest';
import { lastNight } from './fleet-history';

it('gives the night that is over, and the one that is not', () => {
  const utc = (day: number, hour: number) => Date.UTC(2026, 2, day, hour);
  expect(lastNight(utc(10, 9), true)).toEqual([utc(9, 22), utc(10, 6)]);
  expect(lastNight(utc(10, 21), true)).toEqual([utc(9, 22), utc(10, 6)]);
  expect(lastNight(utc(10, 3), true)).toEqual([utc(9, 22), utc(10, 3)]);
  expect(lastNight(utc(10, 23), true)).toEqual([utc(10, 22), utc(10, 23)]);
});
