import { expect, it } from 'vitest';
import { mainWait, waitText } from './waits';

it('names the longest wait with its share of all time, and ready where that is longer', () => {
  expect(mainWait({ run: 10, ready: 5, blocked: 85 }, ['disk', 80])).toEqual({ reason: 'disk', share: 0.8 });
  expect(mainWait({ run: 21, ready: 74, blocked: 5 }, ['futex', 5])).toEqual({ reason: 'ready', share: 0.74 });
  expect(mainWait({ run: 25, ready: 75, blocked: 0 })).toEqual({ reason: 'ready', share: 0.75 });
});

it('has no reason of a wait that is next to nothing, or where none is known', () => {
  expect(mainWait({ run: 1e9, ready: 1e6, blocked: 1e5 }, ['disk', 1e5]).reason).toBe('');
  expect(mainWait({ run: 1, ready: 1, blocked: 98 }).reason, 'blocked, by what was not measured').toBe('');
  expect(mainWait({ run: 1, ready: 50, blocked: NaN }).reason, 'blocked for an unknown time').toBe('');
});

it('keeps a reason whose share is not known', () => {
  const { reason, share } = mainWait({ run: NaN, ready: NaN, blocked: 9 }, ['futex', 9]);
  expect([waitText(reason, share), waitText('lock', 0.876), waitText('', 0.5)]).toEqual(['futex', 'lock 88 %', '']);
});
