// The agent's share of an interval of the past.
import { expect, it } from 'vitest';
import { ownShare } from './own-share';

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
