// @vitest-environment jsdom
import { fireEvent, render, screen } from '@testing-library/svelte';
import { expect, it, vi } from 'vitest';
import DataTable, { figure, sorted, type Column } from './DataTable.svelte';

interface Row {
  name: string;
  ns: number;
}

const ROWS: readonly Row[] = [
  { name: 'web', ns: 7 },
  { name: '<b>db</b>', ns: 5 },
];
const COLUMNS: readonly Column<Row>[] = [
  { id: 'name', title: 'Name', isHead: true, text: ({ name }) => name, hint: ({ name }) => `all of ${name}` },
  {
    ...figure<Row>('CPU', 'CPU time', ({ ns }) => `${ns} ns`, sorted('cpu')),
    class: 'gauge',
    part: ({ ns }) => ns / 7,
  },
  figure<Row>('Share', 'of all', () => '1 %', { least: 5_000 }),
];
// A cast, as jsdom knows no type parameters of components.
const show = (more: object): unknown => render(DataTable as never, { columns: COLUMNS, rows: ROWS, ...more } as never);

it('has titles with their help, cells by column, and a name for each row', () => {
  show({ label: 'tasks' });
  expect(screen.getByRole('region', { name: 'tasks' }).tabIndex).toBe(0);
  const titles = screen.getAllByRole('columnheader');
  expect(titles.map((one) => [one.textContent!.trim(), one.title, one.classList.contains('num')])).toEqual([
    ['Name', '', false],
    ['CPU', 'CPU time', true],
  ]);
  const [web, db] = screen.getAllByRole('rowheader');
  expect(web!.title).toBe('all of web');
  expect(db!.textContent).toBe('<b>db</b>');
  const [cell] = screen.getAllByRole('cell');
  expect([cell!.textContent, cell!.className.includes('gauge'), cell!.style.getPropertyValue('--part')]).toEqual([
    '7 ns',
    true,
    '1',
  ]);
});

it('says what the rows are sorted by, and asks for another order', async () => {
  const onsort = vi.fn();
  show({ label: 'tasks', sort: 'cpu', onsort });
  const title = screen.getByRole('columnheader', { name: /CPU/ });
  expect(title.getAttribute('aria-sort')).toBe('descending');
  const button = screen.getByRole('button', { name: 'CPU' });
  expect(button.getAttribute('aria-pressed')).toBe('true');
  await fireEvent.click(button);
  expect(onsort).toHaveBeenCalledWith('cpu');
  expect(screen.queryByRole('button', { name: 'Name' })).toBeNull();
});

it('has words in place of rows, a caption, and what is left out below', () => {
  show({ rows: [], none: 'no one', caption: 'Who', captionHelp: 'of all', foot: '3 more' });
  const table = screen.getByRole('table', { name: 'Who' });
  expect(table.querySelector('caption')!.title).toBe('of all');
  expect(table.querySelector('thead')).toBeNull();
  expect(table.querySelector('tbody')!.textContent!.trim()).toBe('no one');
  expect(table.querySelector('tfoot')!.textContent!.trim()).toBe('3 more');
});

it('of a long list has only the rows in sight, and moves to one of the others', () => {
  const rows = Array.from({ length: 500 }, (_, nth) => ({ name: `task ${nth}`, ns: nth }));
  const { component } = show({ rows, rowHeight: 30, label: 'tasks' }) as {
    component: { pageRows: () => number; scrollTo: (row: number) => void };
  };
  const table = screen.getByRole('table', { name: 'tasks' });
  expect(table.getAttribute('aria-rowcount')).toBe('501');
  expect(screen.getAllByRole('rowheader').length).toBeLessThan(40);
  expect(component.pageRows()).toBe(18);
  component.scrollTo(100);
  expect(table.scrollTop).toBe(102 * 30 - 600);
});
