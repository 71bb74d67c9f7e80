// *Why slow?* In: a past that is the same each time, the measured machine, an answer with all that it can have. Out: the dialog from each
// place of the page, with the words of `cpumon why`; a link; no answer.
import { test as base, type Locator, type Page } from '@playwright/test';
import { findsNothing } from './axe';
import { boxOf, resize } from './layout';
import { Complaints, expect, PastReceiver, test as liveTest } from './receiver';
import { ANSWER } from './why-answer';

const BEGIN_MS = 1_767_225_600_000;
const SPAN = `since=${BEGIN_MS}&until=${BEGIN_MS + 600_000}`;
const AT = `${BEGIN_MS + 500_000}000000`;
const BLOCKS = ['Why', 'Do', 'Time', 'Sure', 'More'];

const test = base.extend<{ complaints: Complaints }, { past: PastReceiver }>({
  past: [
    async ({}, use) => {
      const past = new PastReceiver();
      past.make();
      await past.start();
      await use(past);
      await past.close();
    },
    { scope: 'worker' },
  ],
  complaints: [
    async ({ page, past }, use) => {
      const complaints = new Complaints(page, past.url);
      await use(complaints);
      expect(complaints.texts).toEqual([]);
    },
    { auto: true },
  ],
});

const dialog = (page: Page): Locator => page.getByRole('dialog', { name: 'Why slow?' });
const button = (page: Page): Locator => page.getByRole('button', { name: 'Why slow?' });

/** The parameters of the question that an action leads to. */
async function asked(page: Page, act: () => Promise<void>): Promise<Record<string, string>> {
  const request = page.waitForRequest(/\/why(\?|$)/);
  await act();
  return Object.fromEntries(new URL((await request).url()).searchParams);
}

async function hasBlocks(page: Page): Promise<void> {
  const headings = dialog(page).getByRole('heading', { level: 2 });
  await expect(headings).toHaveCount(BLOCKS.length);
  for (const [nth, name] of BLOCKS.entries())
    await expect(headings.nth(nth)).toContainText(new RegExp(`^\\s*${name}`, 'i'));
  await expect(dialog(page)).toContainText(/(High|Medium|Low)\. It rests on \d+ /);
}

test('a process that nothing delays: from its page, with the keyboard, and by a link', async ({ page, past }) => {
  await page.goto(`${past.url}/host/picture/process/200-42?${SPAN}`);
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('encoder');
  const span = { since: `${BEGIN_MS}000000`, until: `${BEGIN_MS + 600_000}000000` };
  expect(await asked(page, () => button(page).click())).toEqual({ ...span, name: '200' });
  await hasBlocks(page);
  await expect(dialog(page)).toContainText(/encoder on picture, 2026-01-01 .*: 1 process/);
  await expect(dialog(page)).toContainText(/Nothing delays it: it ran \d+ % of the time and was ready \d+ %\./);
  await expect(dialog(page)).toContainText('Nothing here. If it feels slow from outside');
  await expect(dialog(page).getByRole('row', { name: /^ran \d+ %/ })).toBeVisible();
  await findsNothing(page);
  const link = page.url();
  await page.keyboard.press('Escape');
  await expect(dialog(page)).toHaveCount(0);
  expect(page.url()).not.toContain('why=');
  await expect(button(page)).toBeFocused();
  await page.keyboard.press('y');
  await expect(dialog(page)).toContainText('Nothing delays it');
  await page.goto('about:blank');
  await page.goto(link);
  await expect(dialog(page)).toContainText('Nothing delays it');
});

test('the machine and a row, at a moment of the past', async ({ page, past }) => {
  await page.goto(`${past.url}/host/picture/history?${SPAN}&at=${AT}`);
  const header = page.getByRole('region', { name: 'host', exact: true });
  expect(await asked(page, () => header.getByRole('button', { name: 'Why slow?' }).click())).toEqual({ at: AT });
  await hasBlocks(page);
  await expect(dialog(page)).toContainText(/The machine on picture, 2026-01-01 .* to /);
  await expect(dialog(page)).toContainText(/Nothing is short: the CPUs were idle \d+ % of the time/);
  await page.keyboard.press('Escape');
  const grid = page.getByRole('treegrid');
  const row = grid.getByRole('row', { name: /encoder/ });
  await row.getByRole('gridcell').nth(1).click();
  expect(await asked(page, () => row.getByText('Why slow?').click())).toEqual({ at: AT, name: '200' });
  await expect(dialog(page)).toContainText('Nothing delays it');
  await page.keyboard.press('Escape');
  await expect(dialog(page)).toHaveCount(0);
  // Another row has it then; a group is asked for by its name.
  await page.keyboard.press('ArrowDown');
  await expect(row).not.toContainText('Why slow?');
  await page.getByRole('combobox', { name: 'rows' }).selectOption('user');
  await grid.getByRole('row', { name: /1000/ }).getByRole('gridcell').nth(1).click();
  expect(await asked(page, () => page.keyboard.press('y'))).toEqual({ at: AT, within: 'user:1000' });
  await expect(dialog(page)).toContainText('user 1000 on picture, ');
});

test('a selected span, of the group that its rows are limited to', async ({ page, past }) => {
  const [from, to] = [BEGIN_MS + 200_000, BEGIN_MS + 300_000];
  const span = { since: `${from}000000`, until: `${to}000000` };
  await page.goto(`${past.url}/host/picture/history?${SPAN}&part=${from}-${to}`);
  const bar = page.getByRole('group', { name: 'selected span' });
  expect(await asked(page, () => bar.getByRole('button', { name: 'Why slow?' }).click())).toEqual(span);
  await expect(dialog(page)).toContainText('The machine on picture, ');
  await page.keyboard.press('Escape');
  await expect(bar).toBeVisible();
  await page.goto(`${past.url}/host/picture/history?${SPAN}&part=${from}-${to}&by=process&in=user:1000`);
  await expect(bar).toBeVisible();
  expect(await asked(page, () => page.keyboard.press('y'))).toEqual({ ...span, within: 'user:1000' });
  await expect(dialog(page)).toContainText('user 1000 on picture, ');
});

test('where there is no answer the receiver says why', async ({ page, past }) => {
  await page.goto(`${past.url}/host/picture/history?${SPAN}&why=process:999&when=${BEGIN_MS}-${BEGIN_MS + 600_000}`);
  await expect(dialog(page).getByRole('alert')).toContainText('No process 999 did anything in this range.');
  await findsNothing(page);
  const day = 86_400_000;
  await page.goto(`${past.url}/host/picture/history?${SPAN}&why=machine&when=${BEGIN_MS - 2 * day}-${BEGIN_MS}`);
  await expect(dialog(page).getByRole('alert')).toContainText('24 hours at most');
});

test('a cause has its culprit, a command and the time before, on a phone and in the dark too', async ({
  page,
  past,
}) => {
  await page.route(/\/why(\?|$)/, (route) => route.fulfill({ json: ANSWER }));
  await page.goto(`${past.url}/host/picture/process/200-42?${SPAN}`);
  await button(page).click();
  await hasBlocks(page);
  // Whatever a program is called, it is text.
  await expect(dialog(page)).toContainText(
    'waited for a CPU behind <img src=x> (pid 23227), which has real-time priority 50.',
  );
  expect(await dialog(page).locator('img, b').count()).toBe(0);
  await expect(dialog(page)).toContainText(/Slow since \d\d:\d\d:\d\d\./);
  await expect(dialog(page).getByRole('row', { name: 'ready 74 % 19 % mostly behind <img src=x>' })).toBeVisible();
  await expect(dialog(page).locator('code').first()).toHaveText('chrt --other --pid 0 23227');
  await expect(dialog(page).getByRole('button', { name: 'Copy' })).toBeVisible();
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    for (const width of [1440, 375]) {
      await resize(page, width, 740);
      await findsNothing(page, width === 1440 ? 'colours' : 'all');
      const box = await boxOf(dialog(page));
      expect(box.x).toBeGreaterThanOrEqual(0);
      expect(box.x + box.width).toBeLessThanOrEqual(width);
      // Nothing of it has to be scrolled sideways.
      const wider = await dialog(page)
        .locator('.body, .scroll')
        .evaluateAll((all) => all.filter((one) => one.scrollWidth > one.clientWidth).length);
      expect(wider, `${colorScheme}, ${width} px`).toBe(0);
    }
  }
});

liveTest('the measured machine and a process of it, live', async ({ page, receiver }) => {
  await receiver.hasRecorded(6);
  await page.goto(`${receiver.url}/host/${await receiver.local()}?q=${receiver.hostilePid}`);
  await expect(page.getByText('1 process found')).toBeVisible();
  expect(await asked(page, () => button(page).click())).toEqual({});
  await hasBlocks(page);
  await expect(dialog(page)).toContainText('The machine on ');
  await page.keyboard.press('Escape');
  await expect(dialog(page)).toHaveCount(0);
  await page.getByRole('treegrid').focus();
  await page.keyboard.press('ArrowDown');
  await expect(page.getByRole('treegrid').locator('[aria-selected=true]')).toHaveCount(1);
  expect(await asked(page, () => page.keyboard.press('y'))).toEqual({ name: String(receiver.hostilePid) });
  await hasBlocks(page);
  await expect(dialog(page).locator('img')).toHaveCount(0);
});
