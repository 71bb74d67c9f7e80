// @vitest-environment jsdom
import { render, screen } from '@testing-library/svelte';
import { expect, it } from 'vitest';
import SelectionBar from './SelectionBar.svelte';

it('has buttons whose names are words apart, though a phone shows only their first', () => {
  const nothing = (): void => undefined;
  render(SelectionBar, {
    ...{ part: { sinceMs: 1000, untilMs: 2000 }, whole: { sinceMs: 0, untilMs: 9000 }, compares: false },
    ...{ path: 'report/export', question: () => ({}) },
    ...{ onzoom: nothing, onwhy: nothing, oncompare: nothing, onclear: nothing },
  });
  const names = screen.getAllByRole('button').map((button) => button.textContent?.replace(/\s+/g, ' '));
  expect(names.slice(0, 3)).toEqual(['Zoom', 'Why slow?', 'Compare with before']);
});
