// @vitest-environment jsdom
import { expect, it } from 'vitest';
import type { Found } from './api';
import { placeOf } from './found';

const of = (host_id: string, kind: Found['kind'], name: string, more: Partial<Found> = {}): Found => ({
  host: 'kitchen',
  host_id,
  kind,
  name,
  processes: 1,
  run_ns: 1,
  ...more,
});
const life = { first_ns: '1795446000000000000', last_ns: '1795446100000000000' };

it('what was found leads to its life, with it alone', () => {
  const [user, service] = [of('00bb', 'user', '0'), of('00cc', 'service', 'cron.service', { host: '' })];
  const pod = of('00aa', 'pod', '0aa79f1d');
  const place = new URL(placeOf(of('00aa', 'name', 'nightly-report', life), { tz: 'utc' }), 'http://x');
  expect(place.pathname).toBe('/host/00aa/history');
  expect(Object.fromEntries(place.searchParams)).toEqual({
    tz: 'utc',
    since: '1795445995000',
    until: '1795446105000',
    by: 'process',
    in: 'name:nightly-report',
  });
  // With two hosts of one name, and one without a name, it is the right one.
  expect([user, service, pod].map((row) => new URL(placeOf(row, {}), 'http://x').pathname)).toEqual(
    ['00bb', '00cc', '00aa'].map((id) => `/host/${id}/history`),
  );
  // Without a time the newest hour is shown.
  expect(new URL(placeOf(user, {}), 'http://x').search).toBe('?by=program&in=user%3A0');
  expect(new URL(placeOf(service, {}), 'http://x').searchParams.get('in')).toBe('service:cron.service');
  expect(new URL(placeOf(pod, {}), 'http://x').searchParams.get('in')).toBe('pod:0aa79f1d');
});
