// @vitest-environment jsdom
import { expect, it } from 'vitest';
import type { Found } from './api';
import { foundRows, placeOf } from './found';

const found = {
  rows: {
    rows: 2,
    total: 2,
    columns: {
      host: 'kitchen / 2',
      kind: ['name', 'user'],
      name: ['nightly-report', '0'],
      first_ns: ['1795446000000000000', null],
      last_ns: ['1795446100000000000', null],
      processes: [3, 12],
      run_ns: [9e9, 1e9],
      share_pct: [1.5, 0.1],
    },
  },
} as unknown as Found;

it('what was found leads to its life, with it alone', () => {
  const [name, user] = foundRows(found);
  expect(name).toMatchObject({ name: 'nightly-report', runs: 3, runNs: 9e9, sharePct: 1.5 });
  const place = new URL(placeOf(name!, { tz: 'utc' }), 'http://x');
  expect(place.pathname).toBe('/host/kitchen%20%2F%202/history');
  expect(Object.fromEntries(place.searchParams)).toEqual({
    tz: 'utc',
    since: '1795445995000',
    until: '1795446105000',
    by: 'process',
    in: 'name:nightly-report',
  });
  // Without a time the newest hour is shown.
  expect(new URL(placeOf(user!, {}), 'http://x').search).toBe('?by=program&in=user%3A0');
});
