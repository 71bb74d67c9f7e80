import { expect, it } from 'vitest';
import { adviceOf, ownShare } from './api';

it('leaves out of an advice what names an address of the API, and only that', () => {
  expect(adviceOf('/api/v1/hosts lists the hosts that report, /api/v1/stored those of which data is stored.')).toBe('');
  const away = 'Ask again in a moment; /api/v1/status shows how the receiver is doing.';
  expect(adviceOf(away)).toBe('Ask again in a moment.');
  expect(adviceOf('Free space; then start it again. See the log.')).toBe(
    'Free space; then start it again. See the log.',
  );
  expect(adviceOf('')).toBe('');
});

// The agent's share of an interval of the past.

const now = { begin_ns: '2000000000', duration_ns: 500_000_000, summary: { own_cpu_ns: 9_000_000 } };

it('is the difference to the interval that ends where this one begins', () => {
  expect(ownShare({ end_ns: '2000000000', summary: { own_cpu_ns: 8_000_000 } }, now)).toBe(0.2);
});

it('is no data after a hole, a restart of the agent, or where it is not measured', () => {
  expect(ownShare({ end_ns: '1900000000', summary: { own_cpu_ns: 8_000_000 } }, now)).toBeNull();
  expect(ownShare({ end_ns: '2000000000', summary: { own_cpu_ns: 10_000_000 } }, now)).toBeNull();
  expect(ownShare({ end_ns: '2000000000', summary: {} }, now)).toBeNull();
  expect(ownShare(null, now)).toBeNull();
});
