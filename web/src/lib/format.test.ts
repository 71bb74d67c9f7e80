import { describe, expect, it } from 'vitest';
import {
  age,
  clock,
  count,
  dateTime,
  duration,
  fixed,
  msOf,
  NO_DATA,
  nsOf,
  percent,
  rate,
  share,
  visible,
  zoneOf,
} from './format';

describe('numbers', () => {
  it('keeps no data and zero apart', () => {
    for (const format of [fixed, percent, rate, count, duration]) {
      expect(format(null)).toBe(NO_DATA);
      expect(format(NaN)).toBe(NO_DATA);
      expect(format(0)).not.toBe(NO_DATA);
    }
  });

  it('groups thousands', () => {
    expect([0, 999, 1000, -12345, 123456].map(count)).toEqual(['0', '999', '1,000', '-12,345', '123,456']);
    expect([2_500_000, 199_199_108, 5e9, -7.2e13, 2.25e15].map(count)).toEqual([
      '2.5 M',
      '199 M',
      '5.0 G',
      '-72.0 T',
      '2.3e+15',
    ]);
    expect([null, 12.34, 99_999, 199_199_108].map((value) => share(value))).toEqual([
      NO_DATA,
      '12.3',
      '99999.0',
      '199 M',
    ]);
  });

  it('gives a zero no sign', () => {
    expect(fixed(-0.001)).toBe('0.0');
    expect(fixed(-0.06)).toBe('-0.1');
  });

  it('chooses the unit of a length of time', () => {
    expect([830, 12_400, 3_210_000, 999_700_000, 1_500_000_000, 243e9, 3600e9, 90_000e9].map(duration)).toEqual([
      '830 ns',
      '12.4 µs',
      '3.21 ms',
      '1.00 s',
      '1.50 s',
      '4 min 03 s',
      '1 h',
      '25 h',
    ]);
  });
});

it('shows ages in whole seconds', () => {
  expect([null, -5, 999, 6_400, 119_999, 243_000].map(age)).toEqual([
    NO_DATA,
    '0 s',
    '0 s',
    '6 s',
    '119 s',
    '4 min 03 s',
  ]);
});

describe('times', () => {
  it('survives nanoseconds beyond 2^53', () => {
    expect(msOf('1795273834006713889')).toBeCloseTo(1795273834006.7139, 3);
    expect(nsOf(1795273834006)).toBe('1795273834006000000');
    expect(nsOf(msOf('1795273834006000000'))).toBe('1795273834006000000');
  });

  it('takes any number of a link', () => {
    expect([msOf('abc'), msOf('1.5'), msOf('')]).toEqual([NaN, NaN, NaN]);
    expect([clock(9e99, 'utc'), dateTime(9e99, 'utc'), dateTime(NaN, 'local')]).toEqual([NO_DATA, NO_DATA, NO_DATA]);
  });

  it('names both offsets of a span in which the clocks were changed', () => {
    const before = process.env['TZ'];
    process.env['TZ'] = 'Europe/Berlin';
    try {
      const change = Date.UTC(2026, 9, 25, 1);
      expect(zoneOf('local', change - 3_600_000, change + 3_600_000)).toBe('UTC+02:00 → UTC+01:00');
      expect(zoneOf('local', change - 7_200_000, change - 3_600_000)).toBe('UTC+02:00');
      expect(zoneOf('utc', change - 3_600_000, change + 3_600_000)).toBe('UTC');
    } finally {
      process.env['TZ'] = before;
    }
  });

  it('shows UTC on demand', () => {
    expect(clock(Date.UTC(2026, 10, 21, 14, 5, 3, 250), 'utc', 3)).toBe('14:05:03.250');
  });
});

it('makes characters visible that would change the line', () => {
  expect(visible('a\u001b[31mb\u202ec\nd')).toBe('a␛[31mb\ufffdc␊d');
  expect(visible(`Z${'\u0301'.repeat(100)}!`)).toBe(`Z${'\u0301'.repeat(4)}!`);
  // Vietnamese, Hindi, and an emoji of several characters stay whole.
  for (const name of ['ế', 'क्ष्म्य', '👩🏽‍💻'.replaceAll('\u200d', '')]) expect(visible(name)).toBe(name);
  expect(visible('a\u061cb\u3164c\u{e0041}\u00add')).toBe('a\ufffdb\ufffdc\ufffd\ufffdd');
  expect(visible('<b>ünï\u{1f600}</b>')).toBe('<b>ünï\u{1f600}</b>');
});
