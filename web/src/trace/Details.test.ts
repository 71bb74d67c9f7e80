// @vitest-environment jsdom
import { render, screen } from '@testing-library/svelte';
import { expect, it } from 'vitest';
import type { TraceSlice } from '../lib/api';
import { waitWords } from '../lib/receiver.svelte';
import Details from './Details.svelte';

it('says in words what a thread waited for before a slice and after it', () => {
  waitWords.known = { futex: 'lock' };
  const slice = {
    who: { thread: 1, tid: 7, pid: 7, name: 'worker', program: 'worker', is_kernel: false },
    state: 'running',
    reason: null,
    from_ns: 0,
    length_ns: 1000,
    cpu: 0,
    is_over: true,
    before: 'blocked: futex',
    after: 'preempted',
    woke: [],
  } as unknown as TraceSlice;
  render(Details, { slice, onjump: () => {}, onclose: () => {} });
  const text = screen.getByRole('region', { name: 'slice' }).textContent;
  expect(text).toMatch(/Before\s*blocked: lock \(futex\)/);
  expect(text).toMatch(/Next\s*preempted/);
});
