// @vitest-environment jsdom
import { fireEvent, render, screen } from '@testing-library/svelte';
import { beforeEach, expect, it, vi } from 'vitest';
import { feed } from '../feed/feed.svelte';
import { Tasks } from '../feed/tasks';
import { Texts, ViewMaker, type Layout, type Spec, type View } from '../feed/view';
import type { Cell, Snapshot } from '../lib/api';
import { PlottedTasks } from '../lib/plotted-tasks.svelte';
import { route } from '../lib/route.svelte';
import Grid from './Grid.svelte';

const BASE: Spec = { layout: 'list', sort: 'cpu', descending: true, filter: '', open: [], hideIdle: false };

function viewOf(rows: number, layout: Layout = 'list'): View {
  const nth = Array.from({ length: rows }, (_, row) => row);
  const columns: Record<string, Cell[]> = {
    key: nth.map((row) => `${row + 1}-9`),
    pid: nth.map((row) => row + 1),
    parent_pid: nth.map((row) => (row === 0 ? 0 : 1)),
    name: nth.map((row) => `program-${row + 1}`),
    uid: nth.map(() => 0),
    run_ns: nth.map((row) => (rows - row) * 1e6),
    thread_rows: nth.map(() => 1),
    life: nth.map((row) => (row === 1 ? 'ended' : '')),
    interpreter: nth.map((row) => (row === 2 ? 'python3' : null)),
    scheduling: nth.map((row) => (row === 0 ? 'real-time 50' : row === 2 ? 'nice 19' : null)),
  };
  const tasks = new Tasks();
  const snapshot = { host: 'h', boot: 'b', skipped: 0, fields: [], summary: {}, processes: { rows, columns } };
  tasks.apply(snapshot as unknown as Snapshot, false);
  const view = new ViewMaker(tasks, { ...BASE, layout }, 1e9, new Texts()).make();
  feed.texts = view.fresh;
  return view;
}

const go = vi.spyOn(route, 'go').mockReturnValue(undefined);
/** With settings of the address. */
function show(view: View, settings: Record<string, string> = {}): void {
  const none = { sel: undefined, open: undefined, plot: undefined, unit: undefined, sort: undefined };
  route.set({ ...none, cols: 'pid,cpu,ready', ...settings });
  render(Grid, { view, cpus: 2, plotted: new PlottedTasks() });
}
const cells = (row: Element): string[] => Array.from(row.children, (cell) => cell.textContent ?? '');
const dataRows = (): HTMLElement[] => screen.getAllByRole('row').slice(1);

beforeEach(() => vi.clearAllMocks());

it('shows values with their unit, no data as a dash, and marks what ended', () => {
  show(viewOf(2));
  expect(screen.getAllByRole('columnheader').map((head) => head.textContent?.trim())).toEqual([
    'Name',
    'PID',
    '%CPU▾',
    'ready',
  ]);
  expect(cells(dataRows()[0]!).slice(1)).toEqual(['1', '0.2', '–']);
  expect(dataRows()[1]!.textContent).toContain('†');
});

it('shows scheduling that is not the default beside the name', () => {
  show(viewOf(4));
  const beside = dataRows().map((row) => row.querySelector('.beside')!.textContent);
  expect(beside).toEqual(['(real-time 50)', '', 'python3 (nice 19)', '']);
});

it('divides by the CPUs where 100 percent are the whole host', () => {
  show(viewOf(40), { unit: 'host' });
  expect(screen.getByRole('columnheader', { name: '%host' })).toBeTruthy();
  expect(cells(dataRows()[0]!)[2]).toBe('2.0');
});

it('has only the rows in sight in the document', async () => {
  show(viewOf(20_000));
  const grid = screen.getByRole('treegrid');
  expect(grid.getAttribute('aria-rowcount')).toBe('20001');
  expect(dataRows().length).toBeLessThan(40);
  grid.scrollTop = 24 * 10_000;
  await fireEvent.scroll(grid);
  expect(dataRows().some((row) => row.textContent?.includes('program-10001'))).toBe(true);
});

it('selects by click and by arrow, opens with Enter and by double click', async () => {
  show(viewOf(5), { sel: '2-9' });
  const grid = screen.getByRole('treegrid');
  await fireEvent.click(dataRows()[3]!);
  const selected = [route.query['sel']];
  for (const key of ['ArrowDown', 'ArrowUp', 'ArrowUp', 'End', 'Home']) {
    await fireEvent.keyDown(grid, { key });
    selected.push(route.query['sel']);
  }
  expect(selected).toEqual(['4-9', '5-9', '4-9', '3-9', '5-9', '1-9']);
  await fireEvent.keyDown(grid, { key: 'Enter' });
  // The rows may have moved between the two clicks: the row of the first one is meant.
  await fireEvent.click(dataRows()[2]!, { detail: 1 });
  await fireEvent.click(dataRows()[3]!, { detail: 2 });
  await fireEvent.dblClick(dataRows()[3]!);
  expect(route.query['sel']).toBe('3-9');
  expect(go.mock.calls.map(([address]) => address)).toEqual([
    expect.stringContaining('/process/1-9'),
    expect.stringContaining('/process/3-9'),
  ]);
  expect(dataRows()[2]!.getAttribute('aria-selected')).toBe('true');
});

it('asks why the selected row is slow', async () => {
  show(viewOf(5), { sel: '2-9' });
  const buttons = (): HTMLElement[] => dataRows().filter((row) => row.textContent?.includes('Why slow?'));
  expect(buttons()).toEqual([dataRows()[1]]);
  await fireEvent.click(dataRows()[1]!.querySelector('.why')!);
  expect(route.query['why']).toBe('process:2');
  // It does not open the row's page.
  await fireEvent.dblClick(dataRows()[1]!);
  expect(go).not.toHaveBeenCalled();
  route.set({ why: undefined, when: undefined });
});

it('closes a row of the tree with its arrow and with the keyboard', async () => {
  show(viewOf(3, 'tree'), { sel: '1-9' });
  const [root, child] = dataRows();
  expect(root!.getAttribute('aria-expanded')).toBe('true');
  expect(child!.getAttribute('aria-level')).toBe('2');
  await fireEvent.click(root!.querySelector('.toggle')!);
  expect(route.query['open']).toBe('-1-9');
  // The same view: it is open still.
  route.set({ open: undefined });
  await fireEvent.keyDown(screen.getByRole('treegrid'), { key: 'ArrowLeft' });
  expect(route.query['open']).toBe('-1-9');
  expect(route.query['sel']).toBe('1-9');
});

it('pins a row in the plot and sorts by a title', async () => {
  show(viewOf(3), { sel: '1-9', plot: '3-9~c' });
  await fireEvent.keyDown(screen.getByRole('treegrid'), { key: 'm' });
  expect(route.query['plot']).toBe('3-9~c,1-9~1-9');
  expect(dataRows()[2]!.textContent).toContain('●');
  await fireEvent.click(screen.getByRole('button', { name: 'PID' }));
  expect(route.query['sort']).toBe('pid');
});
