// Settings of the grid. In: the address, and the browser's memory where a link has none. Out: the worker's order,
// columns, units. Why: every setting has a link, and both the live and the past grid read the same words.
import { COLUMN_BY_ID, isMeasured, usualColumns, type GridColumn } from '../feed/columns';
import { feed } from '../feed/feed.svelte';
import type { Layout, Spec } from '../feed/view';
import { remembered } from '../lib/remembered.svelte';
import { route } from '../lib/route.svelte';
import { waitWords } from '../lib/receiver.svelte';
import type { PercentUnit } from './grid-cells';

export const LAYOUTS: readonly [Layout, string][] = [
  ['list', 'Processes'],
  ['threads', 'Threads'],
  ['tree', 'Tree'],
  ['program', 'By program'],
  ['user', 'By user'],
  ['service', 'By service'],
  ['container', 'By container'],
];

/** Columns of numbers that sort the smallest first: for limits the tightest. */
const RISING: readonly string[] = ['pid', 'uid', 'limit'];

class GridSpec {
  get layout(): Layout {
    return LAYOUTS.find(([layout]) => layout === route.query['by'])?.[0] ?? 'list';
  }

  get sort(): string {
    const word = (route.query['sort'] ?? '').replace(/^-/, '');
    return COLUMN_BY_ID.has(word) ? word : 'cpu';
  }

  get descending(): boolean {
    return route.query['sort'] === undefined || route.query['sort'].startsWith('-');
  }

  get filter(): string {
    return route.query['q'] ?? '';
  }

  get open(): string[] {
    return (route.query['open'] ?? '').split(',').filter((key) => key !== '');
  }

  get hideIdle(): boolean {
    return route.query['idle'] === 'hide';
  }

  get unit(): PercentUnit {
    return (route.query['unit'] ?? remembered.get('unit')) === 'host' ? 'host' : 'cpu';
  }

  /** The user's columns; else the usual ones that the source measures. */
  get columns(): GridColumn[] {
    const wanted = (route.query['cols'] ?? remembered.get(this.memory) ?? '')
      .split(',')
      .filter((id) => COLUMN_BY_ID.has(id));
    if (wanted.length > 0) return ['name', ...wanted.filter((id) => id !== 'name')].map((id) => COLUMN_BY_ID.get(id)!);
    const usual = this.usual.map((id) => COLUMN_BY_ID.get(id)!);
    const measured = feed.head?.measured;
    return measured ? usual.filter((column) => isMeasured(column, measured)) : usual;
  }

  /** Rows of threads have columns of their own. */
  private get memory(): string {
    return this.layout === 'threads' ? 'cols-threads' : 'cols';
  }

  private get usual(): string[] {
    return usualColumns(this.layout === 'threads', (feed.head?.limiters.length ?? 0) > 0);
  }

  get spec(): Spec {
    return {
      layout: this.layout,
      sort: this.sort,
      descending: this.descending,
      filter: this.filter,
      open: this.open,
      hideIdle: this.hideIdle,
      ...(this.sort === 'wait' ? { waitWords: waitWords.known } : {}),
    };
  }

  setSort(column: string): void {
    const isText = COLUMN_BY_ID.get(column)?.format === 'text';
    const descending = this.sort === column ? !this.descending : !isText && !RISING.includes(column);
    route.set({ sort: column === 'cpu' && descending ? undefined : (descending ? '-' : '') + column });
  }

  /** In the tree children are in sight until they are closed (`-KEY`), and threads as soon as they are opened (`KEY`). */
  toggleOpen(key: string, isOpen: boolean): void {
    const { open } = this;
    const rest = open.filter((one) => one !== key && one !== `-${key}`);
    const wasDefault = rest.length === open.length;
    const next = !wasDefault ? rest : !isOpen ? [...rest, key] : [...rest, `-${key}`];
    route.set({ open: next.join(',') || undefined });
  }

  /** The threads of a process of the tree whose children are open already; false: there is no more to open. */
  openMore(key: string): boolean {
    const { open } = this;
    if (this.layout !== 'tree' || open.includes(key)) return false;
    route.set({ open: [...open, key].join(',') });
    return true;
  }

  setLayout(layout: Layout): void {
    route.set({ by: layout === 'list' ? undefined : layout, open: undefined });
  }

  setUnit(unit: PercentUnit): void {
    const word = unit === 'host' ? unit : undefined;
    remembered.set('unit', word);
    route.set({ unit: word });
  }

  setColumns(ids: readonly string[]): void {
    const { usual } = this;
    const same = ids.length === usual.length && ids.every((id, at) => id === usual[at]);
    const cols = same ? undefined : ids.join(',');
    remembered.set(this.memory, cols);
    route.set({ cols });
  }
}

export const gridSpec = new GridSpec();
