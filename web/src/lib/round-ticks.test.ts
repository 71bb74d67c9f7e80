import { expect, it } from 'vitest';
import { roundTicks, timeLabels } from './round-ticks';

const at = (text: string): number => Date.parse(`${text}Z`) / 1000;
const labels = (from: string, until: string, fewest: number): string[] =>
  timeLabels(roundTicks(at(from), at(until), fewest, 'utc'), 'utc');

it('has round times, in the span', () => {
  expect(labels('2026-11-24T20:15:24', '2026-11-24T21:15:24', 4)).toEqual(['20:30', '20:45', '21:00', '21:15']);
  expect(labels('2026-11-24T20:15:24', '2026-11-24T20:15:34', 5)).toEqual([
    '20:15:24',
    '20:15:26',
    '20:15:28',
    '20:15:30',
    '20:15:32',
    '20:15:34',
  ]);
  expect(labels('2026-11-23T20:00:00', '2026-11-24T05:00:00', 3)).toEqual(['21:00', '11-24', '03:00']);
  expect(labels('2026-11-01T10:00:00', '2026-11-05T10:00:00', 3)).toEqual(['11-02', '11-03', '11-04', '11-05']);
  expect(roundTicks(0, 1e9, 3, 'utc').length, 'of any span').toBeLessThan(500);
  expect(roundTicks(0.2, 0.7, 3, 'utc')).toEqual([]);
});
