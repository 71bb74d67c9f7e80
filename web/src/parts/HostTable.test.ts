// @vitest-environment jsdom
import { fireEvent, render, screen } from '@testing-library/svelte';
import { beforeEach, expect, it, vi } from 'vitest';
import type { HostRow } from '../lib/fleet';
import { route } from '../lib/route.svelte';
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
    health: [],
    busy: 0.5,
    peak: 0.9,
    ready: 0.2,
    queue: 0.6,
    intervals: 60,
    incomplete: 0,
    threads: 40,
    topName: 'worker',
    topPct: 12,
    unattributed: 0.001,
    lost: 0,
    spark: [],
    ...more,
  };
}

const onopen = vi.fn();
const show = (hosts: HostRow[], more: object = {}) => render(HostTable, { hosts, onopen, ...more });
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

const healthOf = (row: HTMLElement): HTMLElement => row.querySelector<HTMLElement>('.cell.health')!;

it('has no mark for a healthy host, unauthenticated ones included', () => {
  show([host(1, { trust: 'unauthenticated' })]);
  expect(healthOf(rows()[0]!).textContent!.trim()).toBe('');
  expect(rows()[0]!.textContent).not.toMatch(/⚠|unauthenticated/);
});

it('says what is odd, the heaviest first, with figures', () => {
  show([
    host(1, { state: 'silent', health: ['silent'], ageNs: 90e9, busy: null }),
    host(2, { health: ['loss', 'ledger', 'clock'], incomplete: 3, unattributed: 0.25, offsetNs: 7.2e12 }),
    host(3, { health: ['something new'] }),
  ]);
  const [silent, odd, unknown] = rows() as [HTMLElement, HTMLElement, HTMLElement];
  expect(healthOf(silent).textContent).toContain('silent 90 s');
  expect(healthOf(silent).className).toContain('bad');
  expect(silent.querySelector('.busy')!.textContent).toContain('–');
  expect(healthOf(odd).textContent).toContain('3 of 60 incomplete +2');
  expect(healthOf(odd).title).toMatch(/lost on the way.*25.00 % of its CPU time is not attributed.*2 h/);
  expect(healthOf(unknown).textContent!.trim()).toBe('');
});

it('leads from a host that does not report to its past', () => {
  const endMs = Date.UTC(2026, 0, 2, 3, 4, 5);
  show([
    host(1, { state: 'stored', health: ['stored'], endMs }),
    host(2, { state: 'silent', health: ['silent'], endMs }),
  ]);
  const links = rows().map((row) => Array.from(row.querySelectorAll('a'), (link) => link.getAttribute('href')));
  const past = (nth: number) => `/host/${host(nth).id}/history?since=${endMs - 3_600_000}&until=${endMs}`;
  expect(links).toEqual([
    [past(1), past(1)],
    [`/host/${host(2).id}`, past(2)],
  ]);
  expect(rows()[0]!.querySelector('.seen')!.textContent).toContain('2026-01-02');
});

it('has no sparkline at a moment: there is only one value', () => {
  const { container, unmount } = show([host(1)]);
  expect(container.querySelectorAll('canvas')).toHaveLength(1);
  unmount();
  expect(show([host(1)], { at: '1' }).container.querySelectorAll('canvas')).toHaveLength(0);
});

it('is still while the pointer is on a row, and not because of a finger', async () => {
  const onhold = vi.fn();
  show([host(1)], { onhold });
  const group = rows()[0]!.closest('tbody')!;
  await fireEvent.pointerEnter(group, { pointerType: 'touch' });
  expect(onhold).not.toHaveBeenCalled();
  await fireEvent.pointerEnter(group, { pointerType: 'mouse' });
  await fireEvent.pointerLeave(group, { pointerType: 'mouse' });
  expect(onhold.mock.calls).toEqual([[true], [false]]);
});

it('selects with a click, opens with two, and sorts by its headings', async () => {
  route.set({ sort: 'name', sel: host(2).id });
  show([host(1), host(2)]);
  expect(rows()[1]!.className).toContain('selected');
  await fireEvent.click(rows()[0]!);
  expect(route.query['sel']).toBe(host(1).id);
  await fireEvent.dblClick(rows()[0]!);
  expect(onopen).toHaveBeenCalledWith(host(1).id);
  expect(screen.getByRole('columnheader', { name: /Host/ }).getAttribute('aria-sort')).toBe('ascending');
  await fireEvent.click(screen.getByRole('button', { name: /^CPU/ }));
  expect(route.query['sort']).toBe('-busy');
});
