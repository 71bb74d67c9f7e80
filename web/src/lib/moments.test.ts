import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { beforeNow, isRelative, LAST_MS, momentOf, momentOfText, readMoments, wallOf } from './moments';

const before = process.env['TZ'];
beforeAll(() => {
  process.env['TZ'] = 'Europe/Berlin';
});
afterAll(() => {
  process.env['TZ'] = before;
});

const MOMENT = Date.UTC(2026, 10, 21, 2, 12, 7);

describe('wall time', () => {
  it('is that of the zone that is shown, both ways', () => {
    expect(wallOf(MOMENT, 'local')).toBe('2026-11-21T03:12:07');
    expect(wallOf(MOMENT, 'utc')).toBe('2026-11-21T02:12:07');
    for (const zone of ['local', 'utc'] as const) {
      for (const ms of [0, MOMENT, Date.UTC(2026, 6, 1), LAST_MS - (LAST_MS % 1000)])
        expect(momentOf(wallOf(ms, zone), zone)).toBe(ms);
    }
  });

  it('may come without seconds, as browsers give it, or with a fraction', () => {
    expect(momentOf('2026-11-21T03:12', 'local')).toBe(MOMENT - 7000);
    expect(momentOf('2026-11-21T02:12:07.250', 'utc')).toBe(MOMENT + 250);
  });

  it('is no moment where a field is empty or holds something else', () => {
    for (const wrong of ['', 'yesterday', '2026-11-21', '03:12', '2026-11-21T03:12:07Z', '2026-13-01T00:00'])
      expect(momentOf(wrong, 'local')).toBe(NaN);
  });

  it('of an hour that comes twice is the first, of one that is left out the hour after it', () => {
    expect(momentOf('2026-10-25T02:30:00', 'local')).toBe(Date.UTC(2026, 9, 25, 0, 30));
    expect(momentOf('2026-03-29T02:30:00', 'local')).toBe(Date.UTC(2026, 2, 29, 1, 30));
  });
});

describe('fields', () => {
  const span = [
    { name: 'From', ms: MOMENT + 250 },
    { name: 'To', ms: MOMENT + 60_750 },
  ];

  it('that were not changed stay exact', () => {
    expect(readMoments(span, ['2026-11-21T03:12:07', '2026-11-21T03:13:07'], 'local')).toEqual([
      MOMENT + 250,
      MOMENT + 60_750,
    ]);
    expect(readMoments(span, ['2026-11-21T03:12', '2026-11-21T03:13:07'], 'local')).toEqual([
      MOMENT - 7000,
      MOMENT + 60_750,
    ]);
    const second = Date.UTC(2026, 9, 25, 1, 30);
    expect(readMoments([{ name: 'Moment', ms: second }], [wallOf(second, 'local')], 'local')).toEqual([second]);
  });

  it('say what is wrong, and where', () => {
    expect(readMoments(span, ['', '2026-11-21T03:13:07'], 'local')).toEqual({
      at: 0,
      error: 'From is incomplete: enter day, month, year, hour, minute and second.',
    });
    expect(readMoments(span, ['2026-11-21T03:12:07', ''], 'local')).toMatchObject({ at: 1 });
    expect(readMoments(span, ['2026-11-21T04:00:00', '2026-11-21T03:13:07'], 'local')).toEqual({
      at: 1,
      error: 'To must be later than From.',
    });
    expect(readMoments(span, ['2026-11-21T04:00:00', '2026-11-21T04:00:00'], 'local')).toMatchObject({ at: 1 });
    expect(readMoments(span, ['1969-01-01T00:00:00', '2026-11-21T04:00:00'], 'local')).toEqual({
      at: 0,
      error: 'From must be between 1970 and 2262.',
    });
    expect(readMoments(span, ['2026-11-21T04:00:00', '2300-01-01T00:00:00'], 'utc')).toMatchObject({ at: 1 });
  });
});

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
