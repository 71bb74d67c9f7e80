// A receiver that wants a login, by what a user sees and does.
import { test as base } from '@playwright/test';
import { Complaints, expect, LockedReceiver } from './receiver';

const test = base.extend<{ complaints: Complaints }, { locked: LockedReceiver }>({
  locked: [
    async ({}, use) => {
      const locked = new LockedReceiver();
      await locked.token('somebody');
      await locked.start();
      await use(locked);
      await locked.close();
    },
    { scope: 'worker' },
  ],
  complaints: [
    async ({ page, locked }, use) => {
      const complaints = new Complaints(page, locked.url);
      await use(complaints);
      expect(complaints.texts).toEqual([]);
    },
    { auto: true },
  ],
});

test('a wrong token is refused, the right one opens, and the browser stays logged in', async ({ page, locked }) => {
  const token = await locked.token('tester');
  await page.goto(locked.url);
  await expect(page.getByRole('heading', { name: 'Log in' })).toBeVisible();
  await page.keyboard.press('Tab');
  await page.getByLabel('Token').fill('not-a-token-of-this-receiver');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('alert')).toBeVisible();
  await page.getByLabel('Token').fill(token);
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { name: 'Hosts', exact: true })).toBeVisible();
  await expect(page.getByRole('table').getByRole('link').first()).toBeVisible();
  await page.reload();
  await expect(page.getByRole('heading', { name: 'Hosts', exact: true })).toBeVisible();
  // No script can read the session, and it is told to no other site.
  expect(await page.evaluate(() => document.cookie)).toBe('');
  const [cookie] = await page.context().cookies();
  expect([cookie?.httpOnly, cookie?.sameSite]).toEqual([true, 'Strict']);
});

test('who is taken back is out', async ({ page, locked }) => {
  const token = await locked.token('guest');
  await page.goto(locked.url);
  await page.getByLabel('Token').fill(token);
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { name: 'Hosts', exact: true })).toBeVisible();
  await locked.revoke('guest');
  await expect(async () => {
    await page.reload();
    await expect(page.getByRole('heading', { name: 'Log in' })).toBeVisible({ timeout: 1_000 });
  }).toPass({ timeout: 20_000 });
});
