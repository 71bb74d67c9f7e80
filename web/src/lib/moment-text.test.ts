import { expect, it } from 'vitest';
import { beforeNow, isRelative, momentOfText } from './moment-text';

const NOW = 1_795_447_000_000;

it('a moment of a link is a number, a date, or moves along', () => {
  expect(momentOfText('1795446000000', NOW)).toBe(1_795_446_000_000);
  expect(momentOfText('now', NOW)).toBe(NOW);
  for (const [text, ms] of [
    ['now-90s', 90_000],
    ['now-15m', 900_000],
    ['now-15min', 900_000],
    ['now-1h', 3_600_000],
    ['now-2d', 172_800_000],
    ['now-1w', 604_800_000],
  ] as const)
    expect(momentOfText(text, NOW)).toBe(NOW - ms);
  expect(momentOfText('2026-11-23T14:00:00Z', NOW)).toBe(Date.parse('2026-11-23T14:00:00Z'));
  expect(momentOfText('2026-11-23 14:00+01:00', NOW)).toBe(Date.parse('2026-11-23T13:00:00Z'));
  expect(momentOfText('-5', NOW)).toBe(0);
  expect(momentOfText('9e99', NOW)).toBe(9_223_372_036_854);
});

it('what is no moment is none', () => {
  for (const text of ['garbage', '', 'now-', 'now-1', 'now-1y', 'now-1constructor', 'now+1h', '1h', 'Infinity', 'NaN'])
    expect(momentOfText(text, NOW), text).toBeNull();
  expect([undefined, '5', 'nowhere', 'now', 'now-1h'].map(isRelative)).toEqual([false, false, false, true, true]);
});

it('a length before now reads back', () => {
  for (const [ms, text] of [
    [3_600_000, 'now-1h'],
    [5_400_000, 'now-90m'],
    [86_400_000, 'now-1d'],
    [604_800_000, 'now-7d'],
    [61_000, 'now-61s'],
    [200, 'now-1s'],
  ] as const)
    expect(beforeNow(ms)).toBe(text);
});
