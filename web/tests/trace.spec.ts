// The timeline of a trace. In: a made trace, shown by `cpumon trace view`. Out: its numbers are those of `cpumon trace report` of the
// same range, however the window came about; the address restores all of it; both colour schemes and a narrow window are readable.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test as base, type Page } from '@playwright/test';
import { duration } from '../src/lib/format';
import { momentText } from '../src/trace/window';
import { findsNothing } from './axe';
import { boxOf, resize } from './layout';
import { Complaints, CPUMON } from './receiver';

const MAKER =
  process.env['CPUMON_TRACE_MAKER'] ?? join(import.meta.dirname, '../../target/debug/examples/report_speed');
/** Made by the worker: this file is also read by the runner. */
let made = '';
/** The address with its key. */
let printed = '';

const test = base.extend<{ complaints: Complaints }, { url: string }>({
  url: [
    async ({}, use) => {
      const dir = mkdtempSync(join(tmpdir(), 'cpumon-trace-'));
      made = join(dir, 'made.trace');
      execFileSync(MAKER, ['60000', 'mixed', made]);
      const { CPUMON_WEB_DIR: web } = process.env;
      const more = web ? ['--web-dir', web] : [];
      const viewer = spawn(CPUMON, ['trace', 'view', made, ...more], { stdio: ['ignore', 'pipe', 'ignore'] });
      const url = await new Promise<string>((resolve, reject) => {
        viewer.stdout.on('data', (text: Buffer) => resolve(text.toString().trim()));
        viewer.on('exit', (code) => reject(new Error(`ended with ${code}`)));
      });
      printed = url;
      await use(url.split('?')[0]!);
      await ended(viewer);
      rmSync(dir, { recursive: true, force: true });
    },
    { scope: 'worker' },
  ],
  complaints: [
    async ({ page, url }, use) => {
      // It sets the cookie.
      await page.request.get(printed, { maxRetries: 3 });
      const complaints = new Complaints(page, new URL(url).origin);
      await use(complaints);
      expect(complaints.texts).toEqual([]);
    },
    { auto: true },
  ],
});

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.on('exit', () => resolve());
    child.kill('SIGINT');
  });
}

type Rows = Record<string, number>[];

/** What the command line prints of a range, ns. */
function report(by: 'thread' | 'cpu' | 'program', fromNs: number, untilNs: number): Rows {
  const range = ['--from', `${fromNs}ns`, '--to', `${untilNs}ns`];
  return JSON.parse(execFileSync(CPUMON, ['trace', 'report', made, '--by', by, '--json', ...range]).toString()) as Rows;
}

const sum = (rows: Rows, ...names: string[]): number =>
  rows.reduce((all, row) => all + names.reduce((sum, name) => sum + (row[name] ?? 0), 0), 0);

/** As the page writes lengths of ms: 2.12 ms, 31.4 ms, 412 ms. */
const msText = (ns: number): string => `${(ns / 1e6).toFixed(ns < 9.995e6 ? 2 : ns < 99.95e6 ? 1 : 0)} ms`;

/** Shorter ones too. */
const timeText = (ns: number): string => (ns < 999_500 ? `${(ns / 1e3).toFixed(ns < 99_950 ? 1 : 0)} µs` : msText(ns));

const windowOf = (address: string): [number, number] => {
  const [from = '', until = ''] = (new URL(address).searchParams.get('window') ?? '').split('-');
  return [Number(from), Number(until)];
};

/** The address follows the window when that is still: on a slow machine also between two keys. What is shown says whether it has. */
async function stillAddress(page: Page): Promise<string> {
  const shown = page.locator('[data-part=window], [data-part=window] + .dim');
  for (;;) {
    const before = page.url();
    const [from, until] = windowOf(before);
    const texts = [duration(until - from), `from ${momentText(from, Math.max(1, (until - from) / 1000))}`];
    const isThere = (await shown.allTextContents()).join() === texts.join();
    await page.waitForTimeout(200);
    if (isThere && page.url() === before) return before;
  }
}

test('the wheel and the keys zoom, and the numbers are those of the report', async ({ page, url }) => {
  // As it was printed; the key goes from the address.
  await page.goto(printed);
  await expect(page).toHaveURL(url);
  const window = page.getByRole('region', { name: 'window', exact: true });
  const board = page.getByRole('application', { name: /^timeline/ });
  await expect(window.locator('[data-part=running]')).toBeVisible();
  await expect(page.getByRole('region', { name: 'table of threads' }).getByRole('row')).toHaveCount(51);
  const box = await boxOf(board);
  await page.mouse.move(box.x + box.width * 0.6, box.y + 60);
  for (let turn = 0; turn < 6; turn += 1) await page.mouse.wheel(0, -240);
  await board.focus();
  await page.keyboard.press('d');
  await page.keyboard.press('w');
  await expect(page).toHaveURL(/window=\d+-\d+/);
  const [from, until] = windowOf(await stillAddress(page));
  expect(until - from).toBeGreaterThan(1e6);
  expect(until - from).toBeLessThan(4e7);
  const threads = report('thread', from, until);
  await expect(window.locator('[data-part=running]')).toHaveText(msText(sum(threads, 'run_ns')));
  await expect(window.locator('[data-part=ready]')).toHaveText(msText(sum(threads, 'ready_woken_ns')));
  const cpus = report('cpu', from, until);
  const capacity = sum(cpus, 'run_ns', 'idle_ns', 'unknown_ns');
  expect(capacity).toBe(4 * (until - from));
  await expect(window.locator('[data-part=busy]')).toHaveText(
    `${((100 * sum(cpus, 'run_ns')) / capacity).toFixed(1)} %`,
  );
});

test('w a s d zoom and move wherever the focus is, and type in a field', async ({ page, url }) => {
  await page.goto(url);
  const shown = page.locator('[data-part=window]');
  await expect(page.getByRole('region', { name: 'table of threads' }).getByRole('row')).toHaveCount(51);
  const whole = await shown.innerText();
  await page.keyboard.press('w');
  await expect(shown).not.toHaveText(whole);
  await page.getByRole('button', { name: 'Copy link' }).focus();
  const [from] = windowOf(await stillAddress(page));
  await page.keyboard.press('d');
  await expect.poll(() => windowOf(page.url())[0]).toBeGreaterThan(from);
  await page.keyboard.press('a');
  await page.keyboard.press('s');
  await expect(shown).toHaveText(whole);
  await page.getByPlaceholder('name, tid or pid').pressSequentially('wasd');
  await expect(shown).toHaveText(whole);
});

test('a drag selects an area with its culprits, and Escape gives it up', async ({ page, url }) => {
  await page.goto(`${url}?window=100000000-110000000`);
  const board = page.getByRole('application', { name: /^timeline/ });
  await expect(page.getByRole('region', { name: 'window', exact: true })).toBeVisible();
  const box = await boxOf(board);
  // The first two CPUs, a fifth of the window.
  await page.mouse.move(box.x + 400, box.y + 30);
  await page.mouse.down();
  await page.mouse.move(box.x + 600, box.y + 60, { steps: 5 });
  await page.mouse.up();
  const area = page.getByRole('region', { name: 'selected area' });
  await expect(area).toContainText('CPUs 0-1');
  const [from = 0, until = 0] = (new URL(page.url()).searchParams.get('area') ?? '').split('-').map(Number);
  expect(Math.abs(until - from - (200 / (box.width - 150)) * 1e7)).toBeLessThan(20_000);
  const cpus = report('cpu', from, until).slice(0, 2);
  const [run, all] = [sum(cpus, 'run_ns'), sum(cpus, 'run_ns', 'idle_ns', 'unknown_ns')];
  await expect(area.locator('[data-part=busy]')).toHaveText(`${((100 * run) / all).toFixed(1)} %`);
  await expect(area.locator('[data-part=culprit]').first()).toContainText(/[1-9]/);
  await page.keyboard.press('Escape');
  await expect(area).toHaveCount(0);
});

test('who delayed whom is what the report has, by program', async ({ page, url }) => {
  await page.goto(`${url}?window=100000000-104000000`);
  const window = page.getByRole('region', { name: 'window', exact: true });
  const pairs = window.getByRole('table', { name: 'Who delayed whom, by program' });
  const cells = (): Promise<string[][]> =>
    pairs
      .locator('tbody tr')
      .evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent.trim())));
  await expect(pairs.locator('[data-part=delay]')).toHaveCount(6);
  const rows = report('program', 100_000_000, 104_000_000) as unknown as {
    name: string;
    behind: string;
    behind_ns: number;
  }[];
  rows.sort((a, b) => b.behind_ns - a.behind_ns);
  const [most] = rows;
  expect((await cells())[0]).toEqual([most!.name, most!.behind, timeText(most!.behind_ns)]);
  // The rest is not lost.
  await expect(pairs.locator('tfoot')).toContainText(/[\d,]+ more: /);
  // Of an area its own.
  await page.goto(`${url}?window=100000000-104000000&area=100000000-101000000`);
  const area = page.getByRole('region', { name: 'selected area' }).getByRole('table', { name: /^Who delayed whom/ });
  const [top] = (report('program', 100_000_000, 101_000_000) as unknown as typeof rows).sort(
    (a, b) => b.behind_ns - a.behind_ns,
  );
  await expect(area.locator('tbody tr').first()).toContainText(timeText(top!.behind_ns));
  await findsNothing(page);
});

for (const height of [600, 900, 1200])
  test(`${height} px high, who delayed whom needs no scrolling`, async ({ page, url }) => {
    await resize(page, 1440, height);
    await page.goto(url);
    const pairs = page.getByRole('table', { name: 'Who delayed whom, by program' });
    await expect(pairs.locator('[data-part=delay]')).toHaveCount(6);
    await expect(pairs.locator('[data-part=delay]').nth(height < 900 ? 0 : 5)).toBeInViewport({ ratio: 1 });
  });

test('the rows stay where they are when the programs become known', async ({ page, url }) => {
  let answer = (): void => undefined;
  const asked = new Promise<void>((resolve) => (answer = resolve));
  await page.route(/\/tracks\?.*all=true/, async (route) => {
    await asked;
    await route.continue();
  });
  await page.goto(url);
  const board = page.getByRole('application', { name: /^timeline/ });
  await expect(page.getByRole('region', { name: 'window', exact: true })).toBeVisible();
  // The board has rows of threads once they are known.
  await expect(page.getByRole('region', { name: 'table of threads' }).getByRole('row')).toHaveCount(51);
  const before = await boxOf(board);
  answer();
  await expect(page.getByRole('list', { name: /^colours of programs/ })).toContainText('program-');
  expect(await boxOf(board)).toEqual(before);
});

test('a click shows a slice, keys go to the next one, and the address restores it all', async ({ page, url }) => {
  await page.goto(`${url}?window=100000000-101000000`);
  const board = page.getByRole('application', { name: /^timeline/ });
  const details = page.getByRole('region', { name: 'slice' });
  await expect(page.getByRole('region', { name: 'window', exact: true })).toBeVisible();
  const box = await boxOf(board);
  // Somewhere on CPU 2 a thread runs; elsewhere there is a line that says so.
  for (let x = 200; x < 1400; x += 60) {
    const answered = page.waitForResponse(/\/slice\?/);
    await page.mouse.click(box.x + x, box.y + 84);
    if ((await answered).ok()) break;
    await expect(page.locator('p.banner.late', { hasText: 'Close' })).toBeVisible();
  }
  await expect(details.locator('[data-part=state]')).toHaveText(/ran on CPU 2/);
  const first = await details.innerText();
  await page.keyboard.press('.');
  await expect.poll(() => details.innerText()).not.toBe(first);
  await expect(details.locator('[data-part=state]')).toContainText('ran on CPU');
  await page.keyboard.press(',');
  await expect.poll(() => details.innerText()).toBe(first);
  // The one before is the first of its thread: the button that led there keeps the keyboard.
  const previous = details.getByRole('button', { name: 'Previous' });
  await previous.focus();
  await page.route('**/slice?*', async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), previous_ns: null } });
  });
  await page.keyboard.press('Enter');
  await expect(previous).toBeDisabled();
  await expect(previous).toBeFocused();
  // The window follows the slice a moment later.
  const there = await stillAddress(page);
  await page.keyboard.press('Enter');
  expect(await stillAddress(page)).toBe(there);
  await page.unrouteAll({ behavior: 'wait' });
  // What `z` leaves on screen is the slice with its wait.
  await page.keyboard.press('z');
  await expect.poll(() => windowOf(page.url())[1] - windowOf(page.url())[0]).toBeLessThan(1_000_000);
  const rows = page.getByRole('region', { name: 'table of threads' }).getByRole('row');
  await page.getByRole('button', { name: 'Ready', exact: true }).click();
  await page.getByRole('searchbox', { name: 'filter threads' }).fill('program-7');
  // Only the titles have another text: these rows are the answer to the last question.
  await expect(rows.filter({ hasNotText: 'program-7' })).toHaveCount(1);
  await expect(rows.nth(1)).toContainText('program-7');
  // The sums beside the list are those of its threads.
  await expect(page.getByRole('region', { name: 'window', exact: true })).toContainText('threads of “program-7”');
  await rows.nth(1).getByRole('button').click();
  await expect(page.getByText('Antagonists:')).toBeVisible();
  const address = page.url();
  const before = [await details.innerText(), await rows.nth(1).innerText()];
  await page.goto('about:blank');
  await page.goto(address);
  await expect(details).toBeVisible();
  await expect.poll(async () => [await details.innerText(), await rows.nth(1).innerText()]).toEqual(before);
  expect(page.url()).toBe(address);
});

test('the keyboard alone selects a slice of any row, and buttons zoom', async ({ page, url }) => {
  await page.goto(`${url}?window=100000000-101000000`);
  const board = page.getByRole('application', { name: /^timeline/ });
  await expect(page.getByRole('region', { name: 'window', exact: true })).toBeVisible();
  await expect(page.getByRole('region', { name: 'table of threads' }).getByRole('row')).toHaveCount(51);
  await board.focus();
  const slice = (): string => new URL(page.url()).searchParams.get('slice') ?? '';
  await page.keyboard.press('Enter');
  await expect.poll(slice).toMatch(/^c0@/);
  await page.keyboard.press('ArrowDown');
  await expect.poll(slice).toMatch(/^c1@/);
  await page.keyboard.press('ArrowUp');
  await expect.poll(slice).toMatch(/^c0@/);
  // Rows that are out of sight come into it.
  for (let turn = 0; turn < 40; turn += 1) await page.keyboard.press('ArrowDown');
  await expect.poll(slice).toMatch(/^t\d+@/);
  await expect(board).toBeFocused();
  const rows = page.locator('.rows');
  expect(await rows.evaluate((one) => one.scrollHeight - one.scrollTop - one.clientHeight)).toBeLessThan(4);
  const length = (): number => windowOf(page.url())[1] - windowOf(page.url())[0];
  await page.getByRole('button', { name: 'zoom out' }).click();
  await expect.poll(length).toBe(2_000_000);
  for (let turn = 0; turn < 2; turn += 1) await page.getByRole('button', { name: 'zoom in' }).click();
  await expect.poll(length).toBe(500_000);
  // A file belongs to no host of a receiver.
  await expect(page.locator('main').getByRole('link', { name: 'History' })).toHaveCount(0);
});

test('what is seen is a file', async ({ page, url }) => {
  await page.goto(`${url}?window=100000000-100500000`);
  const coming = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Export' }).click();
  const file = await (await coming).createReadStream();
  const text = (await file.toArray()).join('');
  const [head = '', ...lines] = text.trim().split('\n');
  expect(head).toMatch(/^start_ns,end_ns,cpu,tid/);
  expect(lines.length).toBeGreaterThan(300);
  for (const line of lines) {
    const [start, end] = line.split(',').map(Number) as [number, number];
    expect(start).toBeLessThan(100_500_000);
    expect(end).toBeGreaterThan(100_000_000);
  }
});

for (const [width, scheme] of [
  [400, 'light'],
  [1440, 'dark'],
] as const)
  test(`${width} px wide and ${scheme}, everything is readable and reachable`, async ({ page, url }) => {
    await page.emulateMedia({ colorScheme: scheme });
    await resize(page, width, 900);
    await page.goto(`${url}?window=100000000-101000000&slice=t3@100500000&area=100200000-100400000&acpus=0`);
    await expect(page.getByRole('region', { name: 'slice' })).toBeVisible();
    await expect(page.getByRole('region', { name: 'selected area' })).toBeVisible();
    await findsNothing(page);
    // The timeline is reached and used without a mouse.
    const board = page.getByRole('application', { name: /^timeline/ });
    await board.focus();
    await page.keyboard.press('s');
    await expect.poll(() => windowOf(page.url())[1] - windowOf(page.url())[0]).toBeGreaterThan(1_100_000);
  });

test('who delayed whom says why there is no answer', async ({ page, url }) => {
  const json = { type: 'about:blank', title: 'Too busy', status: 400, detail: 'Ask again.' };
  await page.route('**/delays?*', (route) =>
    route.fulfill({ status: 400, contentType: 'application/problem+json', body: JSON.stringify(json) }),
  );
  await page.goto(`${url}?window=100000000-101000000`);
  await expect(page.getByRole('table', { name: /^Who delayed whom/ })).toContainText('Too busy');
});
