// @vitest-environment jsdom
// The dialogs: what they ask the receiver for, what they show, and what they do with the answer.
import { fireEvent, render, screen } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { route } from '../lib/route.svelte';
import ChartDialog from './ChartDialog.svelte';
import FindDialog from './FindDialog.svelte';
import Help from './Help.svelte';
import MomentDialog from './MomentDialog.svelte';
import RowsDialog from './RowsDialog.svelte';

const asked: string[] = [];

beforeEach(() => {
  asked.length = 0;
  URL.createObjectURL = () => 'blob:picture';
  URL.revokeObjectURL = () => undefined;
  vi.stubGlobal('fetch', (url: string) => {
    asked.push(url);
    return Promise.resolve(Response.json({ command: `cpumon export ${url.includes('jsonl') ? 'jsonl' : 'csv'}` }));
  });
});
afterEach(() => vi.unstubAllGlobals());

const moment = { name: 'Moment', ms: Date.parse('2026-07-01T10:00:00.250Z') };

it('an unchanged moment keeps its milliseconds', async () => {
  const [onapply, onclose] = [vi.fn(), vi.fn()];
  render(MomentDialog, { title: 'Go to a moment', fields: [moment], onapply, onclose });
  await fireEvent.click(screen.getByRole('button', { name: 'Apply' }));
  expect(onapply).toHaveBeenCalledWith([moment.ms]);
  expect(onclose).toHaveBeenCalledOnce();
});

it('an incomplete moment stays in the dialog with an error', async () => {
  const onapply = vi.fn();
  render(MomentDialog, { title: 'Go to a moment', fields: [moment], onapply, onclose: vi.fn() });
  const input = screen.getByLabelText('Moment');
  await fireEvent.input(input, { target: { value: '' } });
  await fireEvent.click(screen.getByRole('button', { name: 'Apply' }));
  expect(onapply).not.toHaveBeenCalled();
  expect(screen.getByRole('alert').textContent).toMatch(/^Moment is incomplete/);
  expect(input.getAttribute('aria-invalid')).toBe('true');
});

it('the range of a time line must not end before it begins', async () => {
  const onapply = vi.fn();
  const fields = [
    { name: 'From', ms: moment.ms },
    { name: 'To', ms: moment.ms - 1000 },
  ];
  render(MomentDialog, { title: 'Show the time', fields, onapply, onclose: vi.fn() });
  await fireEvent.click(screen.getByRole('button', { name: 'Apply' }));
  expect(screen.getByRole('alert').textContent).toBe('To must be later than From.');
  expect(onapply).not.toHaveBeenCalled();
});

it('rows are downloaded in the chosen format, and the command line gives the same', async () => {
  const question = { host: 'a', since: '1', until: '2' };
  render(RowsDialog, { path: 'export/processes', question, title: 'The rows as a file', onclose: vi.fn() });
  expect(await screen.findByText('export')).toBeTruthy();
  expect(asked).toEqual(['/api/v1/export/processes/command?host=a&since=1&until=2&format=csv']);
  await fireEvent.click(screen.getByRole('button', { name: 'JSON lines' }));
  const link = screen.getByRole('link', { name: 'Download' });
  expect(link.getAttribute('href')).toBe('/api/v1/export/processes?host=a&since=1&until=2&format=jsonl');
  expect(await screen.findByText('jsonl')).toBeTruthy();
});

it('a refused command line shows the reason of the receiver', async () => {
  vi.stubGlobal('fetch', () =>
    Promise.resolve(Response.json({ title: 'Nothing stored', detail: 'This host has no data.' }, { status: 404 })),
  );
  render(RowsDialog, { path: 'export/processes', question: { host: 'a' }, title: 'Rows', onclose: vi.fn() });
  expect(await screen.findByText('Nothing stored')).toBeTruthy();
  expect(screen.getByText('This host has no data.')).toBeTruthy();
});

it('a chart is previewed and downloaded in both formats', async () => {
  render(ChartDialog, {
    host: 'a',
    view: 'cpu',
    form: 'png',
    query: { since: '1' },
    canvas: null,
    note: '',
    onclose: vi.fn(),
  });
  expect(screen.getByRole('heading', { name: 'Save chart' })).toBeTruthy();
  expect(await screen.findByRole('link', { name: 'Download cpumon-cpu.png' })).toBeTruthy();
  await fireEvent.click(screen.getByRole('button', { name: 'SVG' }));
  const link = await screen.findByRole('link', { name: 'Download cpumon-cpu.svg' });
  expect(link.getAttribute('href')).toBe('blob:picture');
  expect(asked.some((url) => url.startsWith('/api/v1/hosts/a/charts/cpu?') && url.includes('format=svg'))).toBe(true);
});

it('the help lists keys and columns, and closes', async () => {
  const onclose = vi.fn();
  render(Help, { onclose });
  expect(screen.getByRole('heading', { name: 'Keys and terms' })).toBeTruthy();
  expect(screen.getByText('ready')).toBeTruthy();
  await fireEvent.click(screen.getByRole('button', { name: 'Close' }));
  expect(onclose).toHaveBeenCalledOnce();
});

it('a search in an empty store says that nothing is stored', async () => {
  vi.stubGlobal('fetch', () =>
    Promise.resolve(
      Response.json({ title: 'Not Found', status: 404, detail: 'The store holds no host.', how: '' }, { status: 404 }),
    ),
  );
  route.set({ find: 'x' });
  render(FindDialog, { host: '', onclose: vi.fn() });
  expect(await screen.findByText('Nothing is stored yet')).toBeTruthy();
  route.set({ find: undefined });
});
