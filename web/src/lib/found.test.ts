// @vitest-environment jsdom
import { expect, it } from 'vitest';
import type { Found } from './api';
import { foundRows, placeOf } from './found';

const found = {
  rows: {
    rows: 4,
    total: 4,
    columns: {
      host: ['kitchen', 'kitchen', '', 'kitchen'],
      host_id: ['00aa', '00bb', '00cc', '00aa'],
      kind: ['name', 'user', 'service', 'pod'],
      name: ['nightly-report', '0', 'cron.service', '0aa79f1d'],
      first_ns: ['1795446000000000000', null, null, null],
      last_ns: ['1795446100000000000', null, null, null],
      processes: [3, 12, 1, 1],
      run_ns: [9e9, 1e9, 1, 1],
      share_pct: [1.5, 0.1, 0, 0],
    },
  },
} as unknown as Found;

it('what was found leads to its life, with it alone', () => {
  const [name, user, service, pod] = foundRows(found);
  expect(name).toMatchObject({ name: 'nightly-report', runs: 3, runNs: 9e9, sharePct: 1.5 });
  const place = new URL(placeOf(name!, { tz: 'utc' }), 'http://x');
  expect(place.pathname).toBe('/host/00aa/history');
  expect(Object.fromEntries(place.searchParams)).toEqual({
    tz: 'utc',
    since: '1795445995000',
    until: '1795446105000',
    by: 'process',
    in: 'name:nightly-report',
  });
  // Of two hosts with one name, and of one without a name, it is the right one.
  expect([user, service, pod].map((row) => new URL(placeOf(row!, {}), 'http://x').pathname)).toEqual(
    ['00bb', '00cc', '00aa'].map((id) => `/host/${id}/history`),
  );
  // Without a time the newest hour is shown.
  expect(new URL(placeOf(user!, {}), 'http://x').search).toBe('?by=program&in=user%3A0');
  expect(new URL(placeOf(service!, {}), 'http://x').searchParams.get('in')).toBe('service:cron.service');
  expect(new URL(placeOf(pod!, {}), 'http://x').searchParams.get('in')).toBe('pod:0aa79f1d');
});
