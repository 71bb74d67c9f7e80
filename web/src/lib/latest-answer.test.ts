import { afterEach, expect, it, vi } from 'vitest';
import { isAsking, LatestAnswer } from './latest-answer.svelte';

afterEach(() => vi.restoreAllMocks());

it('waits for a question until it is answered, but not for one that hangs', async () => {
  const clock = vi.spyOn(performance, 'now').mockReturnValue(1000);
  const hung = new LatestAnswer<string>();
  void hung.ask(() => new Promise(() => {}));
  clock.mockReturnValue(60_000);
  expect(isAsking()).toBe(true);
  clock.mockReturnValue(61_000);
  expect(isAsking()).toBe(false);
  let answer: (text: string) => void = () => {};
  const slow = new LatestAnswer<string>();
  const asked = slow.ask(() => new Promise((resolve) => (answer = resolve)));
  expect(isAsking()).toBe(true);
  answer('late');
  await asked;
  expect([isAsking(), slow.answer]).toEqual([false, 'late']);
});
