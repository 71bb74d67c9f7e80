// Windows of a trace: they stay within it, and the point under the pointer stays in place.
import { describe, expect, it } from 'vitest';
import { around, momentText, moved, questionFor, serves, ticksOf, within, zoomed } from './window';

const ALL = { from: 0, until: 10_000_000_000 };

describe('windows', () => {
  it('zoom about a point, from all of a trace to less than a microsecond', () => {
    const near = zoomed({ from: 2_000, until: 4_000 }, 2_500, 0.5, ALL);
    expect(near).toEqual({ from: 2_250, until: 3_250 });
    expect(zoomed(near, 2_500, 1e-9, ALL)).toEqual({ from: 2_375, until: 2_875 });
    expect(zoomed(near, 2_500, 1e12, ALL)).toEqual(ALL);
  });

  it('stay within the trace', () => {
    expect(moved({ from: 0, until: 100_000 }, -0.5, ALL)).toEqual({ from: 0, until: 100_000 });
    expect(moved({ from: 9_999_950_000, until: ALL.until }, 1, ALL).until).toBe(ALL.until);
    expect(within({ from: -5, until: 5e10 }, ALL)).toEqual(ALL);
    expect(around({ from: 1_000, until: 2_000 }, ALL)).toEqual({ from: 400, until: 2_600 });
  });

  it('ask for the same buckets while they move, and for others when they zoom', () => {
    const window = { from: 4_000_000, until: 5_000_000 };
    const question = questionFor(window, 1000, ALL);
    expect(question.bucket_ns).toBe(2048);
    expect(question.from_ns % question.bucket_ns).toBe(0);
    expect(serves(question, window, 1000, ALL)).toBe(true);
    expect(serves(question, moved(window, 0.9, ALL), 1000, ALL)).toBe(true);
    expect(serves(question, moved(window, 1.1, ALL), 1000, ALL)).toBe(false);
    expect(serves(question, zoomed(window, 4_500_000, 0.4, ALL), 1000, ALL)).toBe(false);
    expect(questionFor(ALL, 100_000, ALL).count).toBeLessThanOrEqual(8192);
  });

  it('have ticks at round times', () => {
    const ticks = ticksOf({ from: 999_990_000, until: 1_000_030_000 }, 440);
    expect(ticks.map((tick) => tick.text)).toEqual([
      '0.999\u200999 s',
      '1.000\u200900 s',
      '1.000\u200901 s',
      '1.000\u200902 s',
      '1.000\u200903 s',
    ]);
    expect(momentText(1_500_000_000, 1e8)).toBe('1.5 s');
    expect(momentText(7, 1)).toBe('0.000\u2009000\u2009007 s');
  });
});
