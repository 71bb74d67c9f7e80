import { expect, it } from 'vitest';
import { rowsOf } from './charts';

it('asks for the rows that a chart was made of', () => {
  expect(rowsOf([])).toEqual({ kind: 'ledger', process: '' });
  expect(rowsOf(['7-100'])).toEqual({ kind: 'processes', process: '7' });
  expect(rowsOf(['7-100', '8-1'])).toEqual({ kind: 'processes', process: '' });
  expect(rowsOf(['7-100', '7-100/9-3'])).toEqual({ kind: 'threads', process: '7' });
});
