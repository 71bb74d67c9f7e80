// @vitest-environment jsdom
import { afterEach, expect, it, vi } from 'vitest';
import { remembered } from './remembered.svelte';

afterEach(() => vi.restoreAllMocks());

it('keeps a setting in the browser, and goes on without storage', () => {
  remembered.set('unit', 'host');
  expect([remembered.get('unit'), localStorage.getItem('cpumon.unit')]).toEqual(['host', 'host']);
  remembered.set('unit', undefined);
  expect([remembered.get('unit'), localStorage.getItem('cpumon.unit')]).toEqual([undefined, null]);
  localStorage.setItem('cpumon.cols', 'pid,cpu');
  expect(remembered.get('cols')).toBe('pid,cpu');
  vi.spyOn(Storage.prototype, 'setItem').mockImplementation(() => {
    throw new Error('full');
  });
  remembered.set('theme', 'dark');
  expect(remembered.get('theme')).toBe('dark');
});
