import { expect, it } from 'vitest';
import { Losses } from './fleet-losses';
import type { Fleet } from './api';

const health = (more: Partial<Fleet['receiver']> = {}): Fleet['receiver'] => ({
  store: 'ok',
  store_error: '',
  store_clock: '',
  store_dropped: 0,
  datagrams: 0,
  udp: [],
  rejected: 0,
  kernel_dropped: 0,
  ...more,
});
const texts = (losses: Losses, of: Fleet['receiver'], ms: number) => losses.take(of, ms).map((one) => one.text);

it('says nothing of a healthy receiver, and each count that happened', () => {
  expect(texts(new Losses(), health(), 0)).toEqual([]);
  expect(texts(new Losses(), health({ rejected: 5000, kernel_dropped: 1, store_dropped: 2 }), 0)).toEqual([
    '5,000 datagrams refused',
    '1 dropped by the kernel',
    '2 intervals not stored',
  ]);
  expect(texts(new Losses(), health({ store: 'failing', store_dropped: 2 }), 0)).toEqual([]);
});

it('gives the rate of the last minute while a count grows, and only then calls it current', () => {
  const losses = new Losses();
  losses.take(health({ rejected: 100 }), 0);
  expect(losses.take(health({ rejected: 120 }), 10_000)).toEqual([
    { text: '120 datagrams refused (2.0/s)', isNow: true },
  ]);
  expect(losses.take(health({ rejected: 120 }), 75_000)).toEqual([{ text: '120 datagrams refused', isNow: false }]);
  // The receiver was started again.
  expect(losses.take(health({ rejected: 3 }), 76_000)).toEqual([{ text: '3 datagrams refused', isNow: false }]);
});
