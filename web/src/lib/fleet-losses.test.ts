import { expect, it } from 'vitest';
import type { Fleet } from './api';
import { lossesOf } from './fleet-losses';

const receiver = (of: object) =>
  ({ rejected: 0, kernel_dropped: 0, store: 'ok', store_dropped: 0, ...of }) as unknown as Fleet['receiver'];

it('names only what happened', () => {
  expect(lossesOf(undefined)).toEqual([]);
  expect(lossesOf(receiver({}))).toEqual([]);
  expect(lossesOf(receiver({ rejected: 1200, store_dropped: 3 }))).toEqual([
    '1,200 datagrams refused',
    '3 intervals not stored',
  ]);
});

it('leaves the count of a failing store to its banner', () => {
  expect(lossesOf(receiver({ store: 'failing', store_dropped: 3 }))).toEqual([]);
});
