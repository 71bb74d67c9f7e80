// The keyboard's place: after a row, a link or a search field had the focus, something sensible has it, never the body.
import type { Page } from '@playwright/test';
import { expect, test, type Receiver } from './receiver';

const grid = (page: Page) => page.getByRole('treegrid');
const main = (page: Page) => page.getByRole('main');

async function openLocal(page: Page, receiver: Receiver, path = ''): Promise<void> {
  await page.goto(`${receiver.url}/host/${await receiver.local()}${path}`);
}

/** Presses Tab; what gets the focus must be in the view. */
async function tabStaysInView(page: Page): Promise<void> {
  await page.keyboard.press('Tab');
  await expect(main(page).locator(':focus')).toHaveCount(1);
}

test('Enter on a row focuses the view of the process, and Esc there the rows it came from', async ({
  page,
  receiver,
}) => {
  const until = await receiver.hasRecorded(3);
  const span = `since=${until - 60_000}&until=${until}&tab=instant`;
  // A program that runs as long as the test.
  const its = `q=${receiver.hostilePid}`;
  for (const path of [`?${its}`, `/history?${span}&${its}`]) {
    await openLocal(page, receiver, path);
    // The first rows may be of before the search.
    await expect(page.getByText('1 process found')).toBeVisible();
    await page.keyboard.press('ArrowDown');
    await expect(grid(page)).toBeFocused();
    await expect(grid(page).locator('[aria-selected=true]')).toHaveCount(1);
    await page.keyboard.press('Enter');
    await expect(page).toHaveURL(/\/process\//);
    await expect(main(page)).toBeFocused();
    await expect(page.getByRole('region', { name: 'sums' })).toBeVisible();
    await expect(main(page)).toBeFocused();
    await tabStaysInView(page);
    await page.keyboard.press('Escape');
    await expect(grid(page)).toBeFocused();
    await expect(grid(page).locator('[aria-selected=true]')).toHaveCount(1);
  }
});

test('Esc in a search gives the keyboard to the rows or leaves it in the field', async ({ page, receiver }) => {
  await receiver.hasRecorded(3);
  await openLocal(page, receiver);
  await expect(grid(page).locator('[aria-level]').first()).toBeVisible();
  await page.keyboard.press('/');
  await page.keyboard.type('cpumon');
  await page.keyboard.press('Escape');
  await expect(grid(page)).toBeFocused();
  const hosts = page.getByRole('table', { name: 'hosts' });
  for (const text of ['sim', 'no-such-host']) {
    await page.goto(receiver.url);
    await expect(page.getByRole('row', { name: /sim-/ })).toHaveCount(3);
    await page.keyboard.press('/');
    await page.keyboard.type(text);
    await expect(page.getByRole('row', { name: /sim-/ })).toHaveCount(text === 'sim' ? 3 : 0);
    await page.keyboard.press('Escape');
    await expect(page.getByRole('searchbox', { name: 'search hosts' })).toHaveValue('');
    await expect(hosts).toBeFocused();
  }
  for (const path of ['/history', '/landscape?as=heatmap']) {
    await openLocal(page, receiver, path);
    const search = main(page).getByRole('searchbox').first();
    await search.fill('cpumon');
    await search.press('Escape');
    await expect(search).toHaveValue('');
    await expect(search).toBeFocused();
  }
});

test('the fleet: a host that Enter opened, and back', async ({ page, receiver }) => {
  // The busiest is another one each second; the order by name stays.
  await page.goto(`${receiver.url}/?sort=name`);
  const hosts = page.getByRole('table', { name: 'hosts' });
  await expect(page.getByRole('row', { name: /sim-/ })).toHaveCount(3);
  await page.keyboard.press('ArrowDown');
  await expect(hosts).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/host\//);
  await expect(grid(page).locator('[aria-level]').first()).toBeVisible();
  await expect(main(page)).toBeFocused();
  await tabStaysInView(page);
  await page.goBack();
  await expect(hosts).toBeFocused();
  // A link has it again too, though its row came later than the page.
  await page.getByRole('link', { name: 'sim-00001', exact: true }).focus();
  await page.keyboard.press('Enter');
  await expect(main(page)).toBeFocused();
  await page.goBack();
  await expect(page.getByRole('link', { name: 'sim-00001', exact: true })).toBeFocused();
});

test('what removes itself when it is pressed gives the focus to what is there instead', async ({ page, receiver }) => {
  await receiver.hasRecorded(5);
  await openLocal(page, receiver);
  await expect(grid(page).locator('[aria-level]').first()).toBeVisible();
  const pause = page.getByRole('button', { name: 'Pause' });
  await pause.focus();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('button', { name: 'Live', exact: true })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(pause).toBeFocused();
  await page.keyboard.press('ArrowDown');
  await expect(grid(page)).toBeFocused();
  await page.keyboard.press('Space');
  await expect(page.getByText('Paused', { exact: true })).toBeVisible();
  await page.keyboard.press('Space');
  await expect(page.getByText('Paused', { exact: true })).toHaveCount(0);
  await expect(grid(page)).toBeFocused();
  const until = await receiver.hasRecorded(5);
  const span = `since=${until - 4_000}&until=${until}`;
  await openLocal(page, receiver, `/history?${span}&q=onerror&part=${until - 3_000}-${until - 1_000}`);
  // A link to a group: the table is another.
  const row = page.getByRole('tabpanel').getByRole('table').getByRole('link').first();
  await row.focus();
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/in=/);
  await expect(main(page).locator(':focus')).toHaveCount(1);
  await page.getByRole('button', { name: /^program .*×/ }).focus();
  await page.keyboard.press('Enter');
  await expect(page).not.toHaveURL(/in=/);
  await expect(main(page).locator(':focus')).toHaveCount(1);
  const zoom = page.getByRole('button', { name: 'Zoom', exact: true });
  await zoom.focus();
  await page.keyboard.press('Enter');
  await expect(zoom).toHaveCount(0);
  await expect(main(page).locator(':focus')).toHaveCount(1);
  const peak = page.getByRole('tabpanel').locator('button.peak').first();
  await peak.focus();
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/at=\d/);
  await expect(grid(page)).toBeVisible();
  await page.keyboard.press('Tab');
  await expect(main(page).locator(':focus')).toHaveCount(1);
});
