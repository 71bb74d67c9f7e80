// @vitest-environment jsdom
import { fireEvent, render, screen, within } from '@testing-library/svelte';
import { beforeEach, expect, it, vi } from 'vitest';
import type { HostRow } from '../lib/fleet';
import HostTable from './HostTable.svelte';

function host(nth: number, more: Partial<HostRow> = {}): HostRow {
  return {
    id: `${nth}`.padStart(32, '0'),
    name: `host-${nth}`,
    trust: 'authenticated',
    source: 'bpf',
    address: '',
    agent: 'cpumon 0.1.0',
    kernel: '',
    arch: '',
    state: 'reporting',
    ageNs: 4e8,
    endMs: 0,
    offsetNs: 0,
    busy: 0.5,
    threads: 40,
    topName: 'worker',
    topPct: 12,
    unattributed: 0.001,
    closed: true,
    lost: 0,
    spark: [],
    ...more,
  };
}

const on = { onselect: vi.fn(), onopen: vi.fn(), onsort: vi.fn() };
const show = (hosts: HostRow[], more: object = {}) =>
  render(HostTable, { hosts, selected: '', sort: 'name', descending: false, keep: {}, ...on, ...more });
const rows = (): HTMLElement[] => screen.getAllByRole('row').slice(1);

beforeEach(() => {
  vi.clearAllMocks();
  HTMLCanvasElement.prototype.getContext = (() => null) as never;
});

it('has a row for each host in sight only, and says how many there are', () => {
  show(Array.from({ length: 1000 }, (_, nth) => host(nth)));
  expect(screen.getByRole('table').getAttribute('aria-rowcount')).toBe('1001');
  expect(rows().length).toBeGreaterThan(15);
  expect(rows().length).toBeLessThan(40);
});

it('warns of a host that anyone could have sent, and of a silent one; no data is a dash', () => {
  show([host(1, { trust: 'unauthenticated' }), host(2, { state: 'silent', ageNs: 90e9, busy: null, closed: null })]);
  const [first, second] = rows() as [HTMLElement, HTMLElement];
  expect(first.textContent).toContain('⚠ unauthenticated');
  expect(second.textContent).toMatch(/–.*silent/s);
  expect(second.querySelector('[data-state=stopped]')).toBeTruthy();
});

it('marks a ledger that does not balance', () => {
  show([host(1, { closed: false, unattributed: 0.25 })]);
  expect(within(rows()[0]!).getByText('✗ 25.00 %').className).toContain('warn');
});

it('selects with a click, opens with two, and sorts by its headings', async () => {
  show([host(1), host(2)], { selected: host(2).id });
  expect(rows()[1]!.className).toContain('selected');
  await fireEvent.click(rows()[0]!);
  expect(on.onselect).toHaveBeenCalledWith(host(1).id);
  await fireEvent.dblClick(rows()[0]!);
  expect(on.onopen).toHaveBeenCalledWith(host(1).id);
  expect(screen.getByRole('columnheader', { name: /Host/ }).getAttribute('aria-sort')).toBe('ascending');
  await fireEvent.click(screen.getByRole('button', { name: /CPU/ }));
  expect(on.onsort).toHaveBeenCalledWith('busy');
});
