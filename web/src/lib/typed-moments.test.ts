import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LAST_MS, momentOf, readMoments, wallOf } from './typed-moments';

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
