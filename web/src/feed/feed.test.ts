// The page's state after reports of the worker. In: reports as the worker posts them. Out: the interval and the texts on screen.
import { expect, test, vi } from 'vitest';
import type { Report } from './messages';
import type { View } from './view';

class FakeWorker {
  static last: FakeWorker;
  onmessage: (event: { data: Report }) => void = () => {};
  constructor() {
    FakeWorker.last = this;
  }
  postMessage(): void {}
}
vi.stubGlobal('Worker', FakeWorker);
const { feed } = await import('./feed.svelte');

function snapshot(end_ns: string, live: boolean, view: Partial<View> = {}): Report {
  const shown = { restart: false, fresh: [end_ns], ...view } as View;
  return { is: 'snapshot', head: { end_ns, ageMs: 0 } as never, view: shown, watched: [], live, stepped: false };
}

function take(report: Report): string | undefined {
  FakeWorker.last.onmessage({ data: report });
  return feed.head?.end_ns;
}

test('what is on screen stays until the moment comes that was asked for', () => {
  feed.openLive('host');
  expect(take(snapshot('1', true, { restart: true }))).toBe('1');
  feed.openMoment('host', 'at', '0');
  const { view } = feed;
  expect(take(snapshot('2', true)), 'it was on its way').toBe('1');
  expect(feed.view).toBe(view);
  expect(take(snapshot('3', false))).toBe('3');
  expect(feed.texts, 'later views point into all of them').toEqual(['1', '2', '3']);
  feed.step('host', 'before');
  expect(take(snapshot('4', true))).toBe('3');
  expect(take(snapshot('5', true, { restart: true })), 'no row on screen has the texts of another view').toBe('5');
  feed.openLive('host');
  expect(take(snapshot('6', true))).toBe('6');
});
