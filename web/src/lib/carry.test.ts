import { expect, it } from 'vitest';
import { Carried } from './carry';
import type { Place, ViewName } from './route.svelte';

const place = (view: ViewName, query: Record<string, string> = {}, process = ''): Place => ({
  view,
  host: 'h',
  process,
  query,
});

it('takes filter, grouping and unit along', () => {
  const carried = new Carried();
  const live = place('live', { q: 'cc1', by: 'user', unit: 'host', tz: 'utc' });
  carried.note(live);
  expect(carried.to('history', live)).toMatchObject({ q: 'cc1', by: 'user', unit: 'host', tz: 'utc' });
});

it('comes back to the moment and the span of the past by way of Live', () => {
  const carried = new Carried();
  const history = place('history', { since: '1', until: '9', at: '5' });
  carried.note(history);
  expect(carried.to('landscape', history)).toMatchObject({ since: '1', until: '9', at: '5' });
  const shown = carried.to('live', history);
  expect(shown).not.toHaveProperty('at');
  expect(shown).not.toHaveProperty('since');
  const live = place('live');
  carried.note(live);
  expect(carried.to('history', live)).toMatchObject({ since: '1', until: '9', at: '5' });
});

it('shows in History the moment at which Live is paused', () => {
  const carried = new Carried();
  const paused = place('live', { at: '7' });
  carried.note(paused);
  expect(carried.to('history', paused)).toMatchObject({ at: '7' });
});

it('forgets the span of another host', () => {
  const carried = new Carried();
  carried.note(place('history', { since: '1', until: '9' }));
  const other = { ...place('live'), host: 'other' };
  carried.note(other);
  expect(carried.to('history', other)['since']).toBeUndefined();
});

it('names the process of the view before in Export, and no group of Compare', () => {
  const carried = new Carried();
  const process = place('process', { of: 'user' }, '200-42');
  carried.note(process);
  expect(carried.to('export', process)).toMatchObject({ process: '200' });
  expect(carried.to('export', process)).not.toHaveProperty('of');
});
