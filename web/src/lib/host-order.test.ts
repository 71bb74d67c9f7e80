// @vitest-environment jsdom
import { expect, it } from 'vitest';
import { SteadyOrder } from './host-order.svelte';

const rows = (...ids: string[]) => ids.map((id) => ({ id }));
const ids = (of: readonly { id: string }[]) => of.map((row) => row.id).join('');

it('keeps the order while it is held, puts new rows last, and follows another question at once', () => {
  const order = new SteadyOrder();
  expect(ids(order.of(rows('a', 'b', 'c'), 'cpu', false))).toBe('abc');
  expect(ids(order.of(rows('c', 'b', 'a'), 'cpu', true))).toBe('abc');
  expect(ids(order.of(rows('d', 'c', 'a'), 'cpu', true))).toBe('acd');
  expect(ids(order.of(rows('d', 'c', 'b', 'a'), 'cpu', true))).toBe('abcd');
  expect(ids(order.of(rows('c', 'b', 'a'), 'peak', true))).toBe('cba');
  expect(ids(order.of(rows('b', 'c', 'a'), 'peak', false))).toBe('bca');
});
