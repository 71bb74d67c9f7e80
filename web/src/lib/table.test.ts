import { expect, it } from 'vitest';
import type { Table } from './api';
import { getter, has, numbers, texts } from './table';

const table: Table = {
  rows: 3,
  total: 3,
  columns: { list: [1, null, 3], all: 0, words: { values: ['', 'docker'], index: [0, 1, 1] }, constructor: [7, 8, 9] },
};

it('reads each form of a column', () => {
  expect([0, 1, 2].map(getter(table, 'list'))).toEqual([1, null, 3]);
  expect([0, 1, 2].map(getter(table, 'all'))).toEqual([0, 0, 0]);
  expect([0, 1, 2].map(texts(table, 'words'))).toEqual(['', 'docker', 'docker']);
});

it('distinguishes no data from zero', () => {
  expect(numbers(table, 'list')(1)).toBeNaN();
  expect(numbers(table, 'absent')(0)).toBeNaN();
  expect(numbers(table, 'all')(0)).toBe(0);
  expect(has(table, 'absent')).toBe(false);
});

it('finds only own columns', () => {
  expect(numbers(table, 'constructor')(1)).toBe(8);
  expect(getter(table, 'toString')(0)).toBeNull();
});
