// @vitest-environment jsdom
import { render, screen, waitFor } from '@testing-library/svelte';
import { afterEach, expect, it, vi } from 'vitest';
import TraceMarks from './TraceMarks.svelte';

const sinceMs = Date.parse('2026-07-01T10:00:00Z');
const untilMs = sinceMs + 600_000;
const ns = (ms: number): string => `${ms}000000`;

function trace(id: string, atMs: number, reason: string): Record<string, unknown> {
  const [first_ns, last_ns] = [ns(atMs - 30_000), ns(atMs + 1000)];
  return {
    id,
    host: 'h',
    at_ns: ns(atMs),
    first_ns,
    last_ns,
    received_ns: last_ns,
    reason,
    bytes: 5,
    events: 1234,
    lost: 0,
  };
}

function answer(traces: unknown[]): void {
  const body = JSON.stringify({ total: traces.length, traces });
  vi.stubGlobal(
    'fetch',
    vi.fn(() => Promise.resolve(new Response(body, { headers: { 'content-type': 'application/json' } }))),
  );
}

afterEach(() => vi.unstubAllGlobals());

it('marks each trace at its moment, and opens it', async () => {
  answer([
    trace('7', sinceMs + 150_000, 'cpu>90%/5s'),
    trace('8', sinceMs - 1000, 'early'),
    trace('9', untilMs, 'a\u202eb'),
  ]);
  render(TraceMarks, { host: 'kitchen', sinceMs, untilMs });
  const marks = await waitFor(() => {
    const found = screen.getAllByRole('link');
    expect(found.length).toBe(2);
    return found;
  });
  expect(marks[0]!.getAttribute('href')).toBe('/trace/7');
  expect(marks[0]!.style.left).toBe('25%');
  expect(marks[0]!.title).toMatch(/^Trace 7: cpu>90%\/5s at .*; 31 s, 1.?234 events/);
  expect(marks[1]!.title).not.toContain('\u202e');
});

it('takes no space where there is none', async () => {
  answer([]);
  const { container } = render(TraceMarks, { host: 'kitchen', sinceMs, untilMs });
  await waitFor(() => expect(fetch).toHaveBeenCalled());
  expect(container.querySelector('.marks')).toBeNull();
});
