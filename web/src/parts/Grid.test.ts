// @vitest-environment jsdom
import { fireEvent, render, screen } from '@testing-library/svelte';
import { beforeEach, expect, it, vi } from 'vitest';
import { COLUMN_BY_ID, type GridColumn } from '../feed/columns';
import { Tasks } from '../feed/tasks';
import { Texts, ViewMaker, type Layout, type Spec, type View } from '../feed/view';
import type { Snapshot } from '../lib/api';
import type { Cell as Value } from '../lib/api';
import Grid from './Grid.svelte';

const COLUMNS = ['name', 'pid', 'cpu', 'ready'].map((id) => COLUMN_BY_ID.get(id)) as GridColumn[];
const BASE: Spec = { layout: 'list', sort: 'cpu', descending: true, filter: '', open: [], hideIdle: false };

function viewOf(rows: number, layout: Layout = 'list'): { view: View; texts: string[] } {
  const nth = Array.from({ length: rows }, (_, row) => row);
  const columns: Record<string, Value[]> = {
    key: nth.map((row) => `${row + 1}-9`),
    pid: nth.map((row) => row + 1),
    parent_pid: nth.map((row) => (row === 0 ? 0 : 1)),
    name: nth.map((row) => `program-${row + 1}`),
    uid: nth.map(() => 0),
    run_ns: nth.map((row) => (rows - row) * 1e6),
    thread_rows: nth.map(() => 1),
    life: nth.map((row) => (row === 1 ? 'ended' : '')),
  };
  const tasks = new Tasks();
  const snapshot = { host: 'h', boot: 'b', skipped: 0, fields: [], summary: {}, processes: { rows, columns } };
  tasks.apply(snapshot as unknown as Snapshot, false);
  const view = new ViewMaker(tasks, { ...BASE, layout }, 1e9, new Texts()).make();
  return { view, texts: view.fresh };
}

const on = {
  onselect: vi.fn(),
  ontoggle: vi.fn(),
  onmore: vi.fn(() => false),
  onenter: vi.fn(),
  onmark: vi.fn(),
  onsort: vi.fn(),
};
const usual = { columns: COLUMNS, unit: 'cpu' as const, cpus: 2, selected: '', selectedRow: -1, sort: 'cpu' };
const props = (more: object): never => ({ ...usual, descending: true, label: 'tasks', ...on, ...more }) as never;
const cells = (row: Element): string[] => Array.from(row.children, (cell) => cell.textContent ?? '');
const dataRows = (): HTMLElement[] => screen.getAllByRole('row').slice(1);

beforeEach(() => vi.clearAllMocks());

it('shows values with their unit, no data as a dash, and marks what ended', () => {
  render(Grid, props(viewOf(2)));
  expect(screen.getAllByRole('columnheader').map((head) => head.textContent?.trim())).toEqual([
    'Name',
    'PID',
    '%CPU▾',
    'ready',
  ]);
  expect(cells(dataRows()[0]!).slice(1)).toEqual(['1', '0.2', '–']);
  expect(dataRows()[1]!.textContent).toContain('†');
});

it('divides by the CPUs where 100 percent are the whole host', () => {
  render(Grid, props({ ...viewOf(40), unit: 'host' }));
  expect(screen.getByRole('columnheader', { name: '%host' })).toBeTruthy();
  expect(cells(dataRows()[0]!)[2]).toBe('2.0');
});

it('has only the rows in sight in the document', async () => {
  render(Grid, props(viewOf(20_000)));
  const grid = screen.getByRole('treegrid');
  expect(grid.getAttribute('aria-rowcount')).toBe('20001');
  expect(dataRows().length).toBeLessThan(40);
  grid.scrollTop = 24 * 10_000;
  await fireEvent.scroll(grid);
  expect(dataRows().some((row) => row.textContent?.includes('program-10001'))).toBe(true);
});

it('selects by click and by arrow, opens with Enter and by double click', async () => {
  render(Grid, props({ ...viewOf(5), selected: '2-9', selectedRow: 1 }));
  const grid = screen.getByRole('treegrid');
  await fireEvent.click(dataRows()[3]!);
  for (const key of ['ArrowDown', 'ArrowUp', 'End', 'Home']) await fireEvent.keyDown(grid, { key });
  expect(on.onselect.mock.calls.map(([key]: unknown[]) => key)).toEqual(['4-9', '3-9', '1-9', '5-9', '1-9']);
  await fireEvent.keyDown(grid, { key: 'Enter' });
  // The rows may have moved between the two clicks: what the first one was on is meant.
  await fireEvent.click(dataRows()[2]!, { detail: 1 });
  await fireEvent.click(dataRows()[3]!, { detail: 2 });
  await fireEvent.dblClick(dataRows()[3]!);
  expect(on.onselect.mock.calls.at(-1)?.[0]).toBe('3-9');
  expect(on.onenter.mock.calls.map(([key]: unknown[]) => key)).toEqual(['2-9', '3-9']);
  expect(dataRows()[1]!.getAttribute('aria-selected')).toBe('true');
});

it('closes a row of the tree with its arrow and with the keyboard', async () => {
  render(Grid, props({ ...viewOf(3, 'tree'), selected: '1-9', selectedRow: 0 }));
  const [root, child] = dataRows();
  expect(root!.getAttribute('aria-expanded')).toBe('true');
  expect(child!.getAttribute('aria-level')).toBe('2');
  await fireEvent.click(root!.querySelector('.toggle')!);
  await fireEvent.keyDown(screen.getByRole('treegrid'), { key: 'ArrowLeft' });
  expect(on.ontoggle.mock.calls).toEqual([
    ['1-9', true],
    ['1-9', true],
  ]);
  expect(on.onselect).not.toHaveBeenCalled();
});

it('pins a row in the plot and sorts by a title', async () => {
  render(Grid, props({ ...viewOf(3), selected: '1-9', selectedRow: 0, marked: ['3-9'] }));
  await fireEvent.keyDown(screen.getByRole('treegrid'), { key: 'm' });
  expect(on.onmark).toHaveBeenCalledWith('1-9');
  expect(dataRows()[2]!.textContent).toContain('●');
  await fireEvent.click(screen.getByRole('button', { name: 'PID' }));
  expect(on.onsort).toHaveBeenCalledWith('pid');
});
