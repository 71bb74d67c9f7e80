import { expect, it } from 'vitest';
import { comparedSpan, rangeText, spanOf, spanText } from './span';

const span = { sinceMs: 1_795_446_000_000, untilMs: 1_795_446_600_000 };

it('a span survives its text, and what is none is none', () => {
  expect(spanOf(spanText(span))).toEqual(span);
  for (const text of [undefined, '', '5', '6-5', '5-5', 'a-b', '1e3-1e4', '-1-5', '99999999999999-1'])
    expect(spanOf(text)).toBeNull();
  expect(rangeText(span)).toBe('1795446000000000000..1795446600000000000');
});

it('presets are earlier spans of the same length', () => {
  expect(comparedSpan(span, undefined)).toBeNull();
  expect(comparedSpan(span, 'nonsense')).toBeNull();
  expect(comparedSpan(span, 'before')).toEqual({ sinceMs: span.sinceMs - 600_000, untilMs: span.sinceMs });
  expect(comparedSpan(span, 'yesterday')?.sinceMs).toBe(span.sinceMs - 86_400_000);
  expect(comparedSpan(span, 'week')?.untilMs).toBe(span.untilMs - 604_800_000);
  expect(comparedSpan(span, '1000-2000')).toEqual({ sinceMs: 1000, untilMs: 2000 });
});
