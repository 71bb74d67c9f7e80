import { expect, it } from 'vitest';
import { lossesOf } from './losses';

it('names what was lost, and not what was not', () => {
  const summary = { exits_lost: 3, cuts_lost: 1, malformed: 0, permission_denied: null, hidden_left_out: 7, run_ns: 5 };
  expect(lossesOf(summary)).toEqual({
    counted: [
      { label: 'exits lost', count: 3 },
      { label: 'running thread not split at the interval end', count: 1 },
    ],
    hidden: 7,
  });
  expect(lossesOf({})).toEqual({ counted: [], hidden: 0 });
});
