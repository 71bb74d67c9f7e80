// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/svelte';
import { afterEach, expect, it, vi } from 'vitest';
import type { TraceSources } from '../lib/api';
import { TraceRecorder } from '../lib/trace-recorder.svelte';
import TraceButtons from './TraceButtons.svelte';
import TraceProgress from './TraceProgress.svelte';

type Recording = NonNullable<TraceSources['recording']>;

const offer = (more: Partial<TraceSources>): TraceSources => ({
  can_record: true,
  can_take: false,
  last_seconds: null,
  how: '',
  recording: null,
  ...more,
});
const recording = (number: number, state: Recording['state'], more: Partial<Recording> = {}): Recording => ({
  number,
  state,
  left_ms: 0,
  events: 0,
  lost: 0,
  bytes: 0,
  trace: null,
  detail: '',
  ...more,
});

const trace = (id: string, atMs: number) => ({ id, at_ns: `${atMs}000000`, reason: 'recorded by a user' });
const list = (...traces: unknown[]) => ({ body: { total: traces.length, traces } });

/** Answers in turn, the last one repeatedly; there are no traces where the next answer is no list of them. Returns the requests. */
function answers(...bodies: { status?: number; body: unknown }[]): string[] {
  const asked: string[] = [];
  vi.stubGlobal(
    'fetch',
    vi.fn((url: string, init?: RequestInit) => {
      const headers = { 'content-type': 'application/json' };
      if (url.includes('/traces?') && !Object.hasOwn(Object(bodies[0]!.body) as object, 'traces'))
        return Promise.resolve(new Response(JSON.stringify(list().body), { headers }));
      asked.push(`${init?.method ?? 'GET'} ${url}`);
      const { status = 200, body } = bodies.length > 1 ? bodies.shift()! : bodies[0]!;
      if (status === 0) return Promise.reject(new TypeError('Failed to fetch'));
      return Promise.resolve(new Response(JSON.stringify(body), { status, headers }));
    }),
  );
  return asked;
}

async function shown(): Promise<TraceRecorder> {
  const recorder = new TraceRecorder('h');
  render(TraceButtons, { recorder });
  render(TraceProgress, { recorder });
  await recorder.follow();
  return recorder;
}

afterEach(() => vi.unstubAllGlobals());

it('records, shows what is left, and leads to the trace', async () => {
  const asked = answers(
    { body: offer({ recording: recording(1, 'stored', { trace: '3' }) }) },
    { status: 202, body: offer({ recording: recording(2, 'recording', { left_ms: 9_400, events: 1234, lost: 5 }) }) },
    { body: offer({ recording: recording(2, 'storing') }) },
    { body: offer({ recording: recording(2, 'stored', { trace: '4' }) }) },
  );
  const recorder = await shown();
  const button = await screen.findByRole('button', { name: 'Record 10 s' });
  expect(screen.queryByRole('region', { name: 'trace' }), 'an earlier one is not shown').toBeNull();
  await fireEvent.click(button);
  await waitFor(() => expect(screen.getByRole('region', { name: 'trace' }).textContent).toContain('10 s left'));
  expect(screen.getByRole('region', { name: 'trace' }).textContent).toContain('5 lost');
  expect(screen.getByRole('button', { name: 'Record 10 s' }).getAttribute('aria-disabled')).toBe('true');
  const link = await screen.findByRole('link', { name: 'Open trace 4' });
  expect(link.getAttribute('href')).toBe('/trace/4');
  expect(asked[1]).toBe('POST /api/v1/hosts/h/recording?seconds=10');
  await fireEvent.click(screen.getByRole('button', { name: 'Close' }));
  await waitFor(() => expect(screen.queryByRole('region', { name: 'trace' })).toBeNull());
  recorder.end();
});

it('shows a recording that another window began, and a refusal with its reason', async () => {
  answers(
    { body: offer({ recording: recording(7, 'recording', { left_ms: 500 }) }) },
    { body: offer({ recording: recording(7, 'failed', { detail: 'cannot write the trace: the disk is full' }) }) },
  );
  const recorder = await shown();
  expect(await screen.findByRole('button', { name: 'Stop' })).toBeTruthy();
  const alert = await screen.findByRole('alert');
  expect(alert.closest('section')!.textContent).toContain('the disk is full');
  recorder.end();
});

it('shows the recording of another window when it is asked for one more', async () => {
  answers(
    { body: offer({}) },
    { status: 409, body: { title: 'Conflict', status: 409, detail: 'a recording is under way', how: '' } },
    { body: offer({ recording: recording(1, 'recording', { left_ms: 300 }) }) },
    { body: offer({ recording: recording(1, 'stored', { trace: '8' }) }) },
  );
  const recorder = await shown();
  await fireEvent.click(await screen.findByRole('button', { name: 'Record 10 s' }));
  expect(await screen.findByText('Recording every context switch.')).toBeTruthy();
  expect(await screen.findByRole('link', { name: 'Open trace 8' })).toBeTruthy();
  recorder.end();
});

it('follows a recording while the receiver is away for a moment, and says when it was started again', async () => {
  const away = { status: 0, body: null };
  answers(
    away,
    { body: offer({ recording: recording(3, 'recording', { left_ms: 900 }) }) },
    away,
    { body: offer({ recording: recording(3, 'recording', { left_ms: 100, events: 77 }) }) },
    { body: offer({}) },
  );
  const recorder = await shown();
  expect(await screen.findByText(/77 events/)).toBeTruthy();
  const alert = await screen.findByRole('alert');
  expect(alert.closest('section')!.textContent).toContain('started again');
  recorder.end();
});

it('says that the receiver was started again while it stored the trace', async () => {
  answers({ body: offer({ recording: recording(3, 'storing', { detail: 'storing' }) }) }, { body: offer({}) });
  const recorder = await shown();
  const alert = await screen.findByRole('alert');
  expect(alert.closest('section')!.textContent).toContain('started again');
  recorder.end();
});

it('shows a recording of a receiver that was started again, which counts from 1', async () => {
  answers(
    { body: offer({ recording: recording(3, 'stored', { trace: '8' }) }) },
    { status: 202, body: offer({ recording: recording(1, 'recording', { left_ms: 9_000 }) }) },
  );
  const recorder = await shown();
  await fireEvent.click(await screen.findByRole('button', { name: 'Record 10 s' }));
  expect(await screen.findByText('Recording every context switch.')).toBeTruthy();
  recorder.end();
});

it('takes the last seconds and waits for a trace that was not there', async () => {
  const asked = answers(
    { body: offer({ can_record: false, can_take: true, last_seconds: 30 }) },
    list(trace('5', 1000)),
    list(trace('5', 1000)),
    { status: 202, body: { host: 'h' } },
    list(trace('5', 1000)),
    list(trace('5', 1000), trace('6', 2000)),
  );
  const recorder = await shown();
  await fireEvent.click(await screen.findByRole('button', { name: 'Take last 30 s' }));
  expect(await screen.findByRole('link', { name: 'Open trace 6' })).toBeTruthy();
  expect(asked[3]).toBe('POST /api/v1/hosts/h/traces');
  recorder.end();
});

it('has the last trace of the host when the view is opened again, until its line is closed', async () => {
  const coming = (): string[] => answers({ body: offer({}) }, list(trace('7', 1000), trace('8', 2000)));
  for (let opened = 0; opened < 2; opened += 1) {
    coming();
    const recorder = await shown();
    const link = await screen.findByRole('link', { name: 'Trace 8' });
    expect(link.getAttribute('href')).toBe('/trace/8');
    expect(screen.getByRole('region', { name: 'trace' }).textContent).toContain('recorded by a user');
    recorder.end();
    cleanup();
  }
  coming();
  const recorder = await shown();
  await fireEvent.click(await screen.findByRole('button', { name: 'Close' }));
  await waitFor(() => expect(screen.queryByRole('region', { name: 'trace' })).toBeNull());
  recorder.end();
  cleanup();
  answers({ body: offer({}) }, list(trace('7', 1000), trace('8', 2000)), { body: offer({}) });
  const again = await shown();
  // The list came before this answer.
  await again.follow();
  expect(screen.queryByRole('region', { name: 'trace' }), 'the closed one stays closed').toBeNull();
  again.end();
});

it('has no button where there is no way to a trace', async () => {
  answers({ body: offer({ can_record: false, how: 'Enrol it.' }) });
  const recorder = await shown();
  expect(screen.queryByRole('button')).toBeNull();
  recorder.end();
});
