import { expect, it } from 'vitest';
import { COLUMN_BY_ID, NUMBER_AT, NUMBERS, TEXT_AT, TEXTS, WAIT_SHARE } from '../feed/columns';
import { type View } from '../feed/view';
import { waitWords } from '../lib/receiver.svelte';
import { cellText, rowText } from './grid-cells';

const text = (column: string, value: number, isThread: boolean): string =>
  cellText(COLUMN_BY_ID.get(column)!, value, { unit: 'host', cpus: 4, isThread });

it('shows states of a process as threads on average, of a thread as percent, whatever the unit', () => {
  expect(['ready', 'blocked'].map((column) => text(column, 131.19, false))).toEqual(['131', '131']);
  expect([0, 0.0123, 1.7, 13.11].map((value) => text('ready', value, false))).toEqual([
    '0.000',
    '0.012',
    '1.70',
    '13.1',
  ]);
  expect([text('ready', 0.343, true), text('ready', NaN, true), text('blocked', NaN, false)]).toEqual([
    '34.3 %',
    '–',
    '–',
  ]);
  expect(text('cpu', 80, false)).toBe('20.0');
});

it('separates thousands of a count, not of an id', () => {
  expect([text('threads', 2502, false), text('pid', 4_194_303, false), text('pid', 2502, false)]).toEqual([
    '2,502',
    '4194303',
    '2502',
  ]);
});

it('shows what a task waits for in words with its share, and the system call behind them', () => {
  waitWords.known = { futex: 'lock' };
  const waits = (reason: string, share = NaN): unknown => {
    const texts = new Int32Array(TEXTS);
    texts[TEXT_AT.get('wait')!] = 1;
    const none = new Int32Array(1);
    const numbers = new Float64Array(NUMBERS);
    numbers[NUMBER_AT.get(WAIT_SHARE)!] = share;
    const view: View = {
      rows: 1,
      tasks: 1,
      ended: 0,
      alive: 1,
      keys: none,
      owners: none,
      marks: new Uint16Array(1),
      depths: new Uint8Array(1),
      numbers,
      texts,
      flags: none,
      fresh: [],
      restart: false,
    };
    return rowText(view, ['', reason], 0, [COLUMN_BY_ID.get('wait')!], 'cpu', 1, 100).cells[0];
  };
  expect(waits('futex')).toEqual({ text: 'lock', isNone: false, isZero: false, more: 'lock (futex)' });
  expect(waits('futex', 0.876)).toMatchObject({ text: 'lock 88 %', more: 'lock (futex) 88 %' });
  expect(waits('ready', 0.74)).toMatchObject({ text: 'ready 74 %', more: 'ready 74 %' });
  expect(waits('disk')).toEqual({ text: 'disk', isNone: false, isZero: false, more: 'disk' });
  expect(waits('')).toMatchObject({ text: '', isNone: true });
});
