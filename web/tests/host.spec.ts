// One host, live, by what a user sees and does.
import type { Page } from '@playwright/test';
import { boxOf, resize, withoutNotices } from './layout';
import { expect, HOSTILE, test, type Receiver } from './receiver';

async function openLocal(page: Page, receiver: Receiver, query = ''): Promise<void> {
  await page.goto(`${receiver.url}/host/${await receiver.local()}${query}`);
  await expect(page.getByRole('treegrid')).toBeVisible();
}

const shownTime = (page: Page) => page.getByRole('region', { name: 'host', exact: true }).locator('.when');
const grid = (page: Page) => page.getByRole('treegrid');
const rows = (page: Page) => grid(page).getByRole('rowgroup').getByRole('row');

test('the header is one line at 1280 px, two at 800, four at 400, whatever the host is called', async ({
  page,
  receiver,
}) => {
  await openLocal(page, receiver);
  await withoutNotices(page);
  const header = page.getByRole('region', { name: 'host', exact: true });
  const name = header.locator('h1');
  for (const [width, height] of [
    [1440, 44],
    [1280, 44],
    [800, 72],
    // Paused there are three buttons more.
    [400, 120],
  ] as const) {
    await resize(page, width, 800);
    for (const isPaused of [true, false]) {
      await header.getByRole('button', { name: isPaused ? 'Pause' : 'Live' }).click();
      await expect(header.getByRole('status')).toHaveCount(isPaused ? 1 : 0);
      const own = await boxOf(header);
      expect(own.height, `${width} px, paused: ${isPaused}`).toBeLessThanOrEqual(height);
      const ends = await header
        .getByRole('button')
        .evaluateAll((all) => all.map((one) => one.getBoundingClientRect().right));
      expect(Math.max(...ends)).toBeLessThanOrEqual(own.x + own.width);
    }
    // A long name gives way to the figures.
    await name.evaluate((one) => (one.textContent = 'build-runner-17.of.a.long.name.example.org'));
    expect((await boxOf(header)).height, `${width} px, long name`).toBeLessThanOrEqual(height);
  }
});

test('the header is one line with both buttons for traces too', async ({ page, receiver }) => {
  await page.route('**/recording', (route) =>
    route.fulfill({ json: { can_record: true, can_take: true, last_seconds: 10, how: '', recording: null } }),
  );
  await openLocal(page, receiver);
  await withoutNotices(page);
  const header = page.getByRole('region', { name: 'host', exact: true });
  await expect(header.getByRole('button', { name: 'Take last 10 s' })).toBeVisible();
  for (const width of [1440, 1280]) {
    await resize(page, width, 900);
    expect((await boxOf(header)).height, `${width} px`).toBeLessThanOrEqual(44);
  }
});

test('threads and source give way at 1440 px only where the header is paused and not balanced', async ({
  page,
  receiver,
}) => {
  await resize(page, 1440, 900);
  await openLocal(page, receiver);
  await withoutNotices(page);
  const header = page.getByRole('region', { name: 'host', exact: true });
  const both = header.locator('.threads, .source');
  const isShown = (): Promise<boolean[]> => both.evaluateAll((all) => all.map((one) => one.checkVisibility()));
  await expect.poll(isShown).toEqual([true, true]);
  await header.getByRole('button', { name: 'Pause' }).click();
  await expect(header.getByRole('status')).toHaveCount(1);
  const balance = header.locator('.balance');
  await expect(balance).not.toContainText('no data');
  for (const isGood of [true, false]) {
    await balance.evaluate((one, good) => {
      one.classList.toggle('good', good);
      one.textContent = good ? '✓ balanced' : 'not balanced: no data';
    }, isGood);
    await expect.poll(isShown, `balanced: ${isGood}`).toEqual([isGood, isGood]);
    expect((await boxOf(header)).height, `balanced: ${isGood}`).toBeLessThanOrEqual(44);
  }
});

test('on a phone the header has the number of processes where the rows are none', async ({ page, receiver }) => {
  await resize(page, 390, 844);
  for (const [query, isShown] of [
    ['', false],
    ['?by=tree', false],
    ['?by=threads', true],
    ['?by=user', true],
  ] as const) {
    await openLocal(page, receiver, query);
    await expect(page.locator('.processes'), query).toBeVisible({ visible: isShown });
  }
});

test('the rows begin above 350 px on a phone, and twenty are in sight at 1440 x 900', async ({ page, receiver }) => {
  for (const [width, height] of [
    [390, 844],
    [360, 740],
  ] as const) {
    await resize(page, width, height);
    await openLocal(page, receiver);
    await withoutNotices(page);
    await expect(page.getByRole('region', { name: 'plot' })).toContainText('peak interval');
    expect((await boxOf(page.getByRole('region', { name: 'tasks' }))).y, `${width} px`).toBeLessThan(350);
  }
  await resize(page, 1440, 900);
  await openLocal(page, receiver);
  await withoutNotices(page);
  await expect(page.getByRole('region', { name: 'plot' })).toContainText('peak interval');
  const box = await boxOf(grid(page));
  const [head, row] = [await boxOf(grid(page).getByRole('row').first()), await boxOf(rows(page).first())];
  expect((box.height - head.height) / row.height).toBeGreaterThanOrEqual(20);
});

test('header, ledger and grid show what the machine does', async ({ page, receiver }) => {
  await openLocal(page, receiver);
  const header = page.getByRole('region', { name: 'host', exact: true });
  await expect(header).toContainText(/% of \d+ CPUs/);
  await expect(header).toContainText(/ready\s*\d/);
  await header.getByRole('button', { name: 'Accounts and interrupts' }).click();
  await expect(page).toHaveURL(/accounts=1/);
  await expect(page.getByRole('list', { name: 'CPUs' }).getByRole('img').first()).toHaveAttribute(
    'aria-label',
    /CPU 0: .*idle \d/,
  );
  const ledger = page.getByRole('region', { name: 'ledger' });
  for (const line of ['capacity', 'threads', 'exited', 'irq', 'softirq', 'steal', 'unattributed', 'idle'])
    await expect(ledger).toContainText(line);
  await expect(ledger).toContainText(/balanced/);
  await expect(grid(page).getByRole('columnheader', { name: '%CPU' })).toBeVisible();
  await expect(rows(page).first()).toContainText(/\d/);
});

test('a hostile name is text', async ({ page, receiver }) => {
  await openLocal(page, receiver, '?q=onerror');
  await expect(rows(page).first()).toContainText(HOSTILE.slice(0, 10));
  expect(await page.evaluate(() => document.querySelectorAll('[role=treegrid] img').length)).toBe(0);
  await expect(page).not.toHaveTitle(/owned/);
});

test('the keyboard alone: search, move, open threads, plot, unit, pause, step, live', async ({ page, receiver }) => {
  const warnings: string[] = [];
  page.on('console', (message) => void (message.type() === 'warning' && warnings.push(message.text())));
  await openLocal(page, receiver);
  await page.keyboard.press('/');
  await page.keyboard.type(String(receiver.pid));
  await page.keyboard.press('Enter');
  await expect(rows(page).first()).toContainText('cpumon');
  await page.keyboard.press('ArrowDown');
  await expect(grid(page).locator('[aria-selected=true]')).toHaveCount(1);
  await page.keyboard.press('ArrowRight');
  await expect(
    rows(page)
      .filter({ has: page.locator('[role=gridcell]') })
      .nth(1),
  ).toHaveAttribute('aria-level', '2');
  await page.keyboard.press('ArrowDown');
  await expect(grid(page).locator('[aria-selected=true]')).toHaveAttribute('aria-level', '2');
  await page.keyboard.press('m');
  await expect(page).toHaveURL(/plot=/);
  await expect(page.getByRole('region', { name: 'plot' })).toContainText('Selection');
  await page.keyboard.press('%');
  await expect(grid(page).getByRole('columnheader', { name: '%host' })).toBeVisible();
  await page.keyboard.press('Space');
  await expect(page.getByText('Paused')).toBeVisible();
  const paused = await shownTime(page).innerText();
  await page.keyboard.press('[');
  await expect(shownTime(page)).not.toHaveText(paused);
  await expect(page).toHaveURL(/at=\d+/);
  await page.keyboard.press('l');
  await expect(page.getByText('Paused')).toHaveCount(0);
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  await expect(page.getByRole('dialog')).toContainText('Keys and terms');
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  expect(warnings).toEqual([]);
});

test('paused rows stand still; a link brings the same moment back', async ({ page, receiver }) => {
  await openLocal(page, receiver);
  await page.keyboard.press('Space');
  await expect(page.getByText('Paused')).toBeVisible();
  const when = await shownTime(page).innerText();
  await page.waitForTimeout(1500);
  await expect(shownTime(page)).toHaveText(when);
  await page.goto(page.url());
  await expect(shownTime(page)).toHaveText(when);
});

test('a paused view has the share of the agent', async ({ page, receiver }) => {
  const until = await receiver.hasRecorded(4);
  await page.goto(`${receiver.url}/host/${await receiver.local()}?accounts=1&at=${until - 2_000}000000`);
  const accounts = page.getByRole('region', { name: 'accounts and interrupts' });
  await expect(accounts).toContainText(/agent\s+\d+\.\d+ %/);
});

test('groups, tree and threads', async ({ page, receiver }) => {
  await openLocal(page, receiver);
  const layout = page.getByRole('combobox', { name: 'rows' });
  await layout.selectOption('user');
  await expect(rows(page).first()).toContainText(/root|uid \d/);
  // The same groups as those of a report.
  await layout.selectOption('service');
  await expect(page).toHaveURL(/by=service/);
  await expect(
    rows(page)
      .filter({ hasText: /no service|\.(service|scope)/ })
      .first(),
  ).toBeVisible();
  await layout.selectOption('threads');
  await expect(page.getByRole('region', { name: 'tasks' })).toContainText(/\d+\s+threads/);
  await expect(grid(page).getByRole('columnheader', { name: 'Process' })).toBeVisible();
  await layout.selectOption('tree');
  await expect(rows(page).first()).toHaveAttribute('aria-expanded', /true|false/);
  // What is found in a tree is in sight, with those above it; a closed row hides its children.
  await page.keyboard.press('/');
  await page.keyboard.type(String(receiver.hostilePid));
  await page.keyboard.press('Enter');
  const found = rows(page).filter({ hasText: HOSTILE.slice(0, 10) });
  await expect(found).toHaveCount(1);
  await expect(found).not.toHaveAttribute('aria-level', '1');
  await expect(page.getByRole('region', { name: 'tasks' })).toContainText('1 process found');
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowLeft');
  await expect(found).toHaveCount(0);
  await page.keyboard.press('ArrowRight');
  await expect(found).toHaveCount(1);
  await page.keyboard.press('Escape');
});

test('sort by a column, choose columns, and find both in the link', async ({ page, receiver }) => {
  await openLocal(page, receiver);
  await grid(page).getByRole('columnheader', { name: 'PID' }).getByRole('button').click();
  await expect(page).toHaveURL(/sort=pid/);
  await expect(grid(page).getByRole('columnheader', { name: 'PID' })).toHaveAttribute('aria-sort', 'ascending');
  // The header shows it at once, the rows follow when the worker has sorted them.
  const ids = rows(page).locator('[role=gridcell]:nth-child(2)');
  await expect(async () => {
    const numbers = (await ids.allInnerTexts()).slice(0, 10).map(Number);
    expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
  }).toPass();
  await page.getByRole('button', { name: 'Columns' }).click();
  await page.getByRole('checkbox', { name: 'user' }).uncheck();
  await expect(grid(page).getByRole('columnheader', { name: 'user' })).toHaveCount(0);
  await page.reload();
  await expect(grid(page)).toBeVisible();
  await expect(grid(page).getByRole('columnheader', { name: 'user' })).toHaveCount(0);
});

test('the rows stay where they are when one is selected, and when the view is paused', async ({ page, receiver }) => {
  // A process that stays.
  await openLocal(page, receiver, '?q=onerror');
  await withoutNotices(page);
  await expect(page.getByRole('region', { name: 'plot' })).toContainText('peak interval');
  await expect(rows(page).filter({ hasNotText: 'onerror' })).toHaveCount(0);
  const top = async (): Promise<number> => (await boxOf(grid(page))).y;
  const before = await top();
  await rows(page).first().getByRole('gridcell').nth(3).click();
  await expect(page.getByRole('region', { name: 'plot' }).getByRole('heading', { name: 'Selection' })).toBeVisible();
  await expect(page.getByRole('region', { name: 'plot' }).getByRole('button', { name: /^remove / })).toHaveCount(1);
  expect(await top()).toBe(before);
  await page.keyboard.press('Space');
  await expect(page.getByText('Paused')).toBeVisible();
  expect(await top()).toBe(before);
});

test('the run queue in place of CPU use, by key and by link', async ({ page, receiver }) => {
  await openLocal(page, receiver);
  const plot = page.getByRole('region', { name: 'plot' });
  await page.keyboard.press('r');
  await expect(plot.getByRole('heading')).toHaveText('Run queue');
  await expect(plot).toContainText(/longest of one CPU/);
  await expect(page).toHaveURL(/chart=queue/);
  await page.reload();
  await expect(plot.getByRole('button', { name: 'Run queue' })).toHaveAttribute('aria-pressed', 'true');
  await page.keyboard.press('r');
  await expect(plot.getByRole('heading')).toHaveText('All CPUs by mode');
});

test('what is not in sight is not in the document', async ({ page, receiver }) => {
  await page.goto(`${receiver.url}/host/sim-00000?by=threads`);
  await expect(page.getByRole('region', { name: 'tasks' })).toContainText('40 threads');
  await expect(grid(page)).toHaveAttribute('aria-rowcount', '41');
  await resize(page, 1440, 700);
  expect(await rows(page).count()).toBeLessThan(40);
  await grid(page).focus();
  await page.keyboard.press('End');
  await expect(grid(page).locator('[aria-rowindex="41"]')).toBeVisible();
});

test('an unknown host', async ({ page, receiver }) => {
  await page.goto(`${receiver.url}/host/no-such-host`);
  await expect(page.getByRole('alert')).toContainText('No such host');
});

test('the receiver goes, is asked at once on demand, and comes back', async ({ page, receiver }) => {
  await openLocal(page, receiver);
  const banner = page.getByRole('banner');
  await receiver.stop();
  try {
    await expect(page.locator('[data-state=lost]')).toContainText('Receiver lost');
    await expect(rows(page).first()).toBeVisible();
    // Before the page would try again by itself. On a machine that was too slow for this countdown: within a later one, which is longer.
    await expect(async () => {
      await expect(banner).toContainText(/receiver lost, retry in ([4-9]|1\d) s/);
      const readMs = Date.now();
      const [, seconds] = /retry in (\d+) s/.exec(await banner.innerText()) ?? [];
      const asked = page.waitForRequest(/\/live/);
      await page.getByRole('button', { name: 'Retry' }).click();
      await asked;
      expect(Date.now() - readMs).toBeLessThan((Number(seconds) - 1) * 1000);
    }).toPass();
  } finally {
    await receiver.start();
  }
  // By itself.
  await expect(page.locator('[data-state=lost]')).toHaveCount(0);
  await expect(page.getByRole('status').filter({ hasText: /^live$/ })).toBeVisible();
  await expect(page.getByRole('button', { name: 'Retry' })).toHaveCount(0);
  const when = await shownTime(page).innerText();
  await expect(shownTime(page)).not.toHaveText(when);
});

test('times are local, and in UTC on demand', async ({ page, receiver }) => {
  await openLocal(page, receiver);
  await expect(page.getByRole('button', { name: /^UTC\+0[12]:00$/ })).toBeVisible();
  await page.keyboard.press('u');
  await expect(page.getByRole('button', { name: 'UTC', exact: true })).toBeVisible();
  // Not an hour or two beside it, on whichever day.
  const shown = (await shownTime(page).innerText()).replace(/\s/, 'T');
  expect(Math.abs(Date.parse(`${shown}Z`) - Date.now())).toBeLessThan(1_800_000);
});
