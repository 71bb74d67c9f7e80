// @vitest-environment jsdom
// The grid's settings: what a link says, else what the browser remembers.
import { expect, it } from 'vitest';
import { route } from '../lib/route.svelte';
import { gridSpec } from './grid-spec.svelte';

it('the unit that was chosen last is that of a link without one', () => {
  gridSpec.setUnit('host');
  route.set({ unit: undefined });
  expect(gridSpec.unit).toBe('host');
  gridSpec.setUnit('cpu');
  expect(gridSpec.unit).toBe('cpu');
  expect(route.query['unit']).toBeUndefined();
});
