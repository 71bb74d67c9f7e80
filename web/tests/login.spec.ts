// A receiver that wants a login, by what a user sees and does.
import { expect, lockedTest as test } from './receiver';

test('a wrong token is refused, the right one opens, and the browser stays logged in', async ({ page, locked }) => {
  const token = await locked.token('tester');
  await page.goto(locked.url);
  await expect(page.getByRole('heading', { name: 'Log in' })).toBeVisible();
  await expect(page.getByLabel('Token')).toBeFocused();
  await page.keyboard.type('not-a-token-of-this-receiver');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('alert')).toBeVisible();
  const button = page.getByRole('button', { name: 'Log in' });
  await button.focus();
  const answer = page.waitForResponse((response) => response.request().method() === 'POST');
  await page.keyboard.press('Enter');
  await answer;
  // Not before the answer was taken: until then it takes no other.
  await expect(button).toBeEnabled();
  await expect(button).toBeFocused();
  await page.getByLabel('Token').fill(token);
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { name: 'Hosts', exact: true })).toBeVisible();
  await expect(page.getByRole('table').getByRole('link').first()).toBeVisible();
  await page.reload();
  await expect(page.getByRole('heading', { name: 'Hosts', exact: true })).toBeVisible();
  // No script can read the session, and it is sent to no other site.
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
    await expect(page.getByRole('heading', { name: 'Log in' })).toBeVisible({ timeout: 5_000 });
  }).toPass();
});

test('a login that ended asks for the token again, in views of the past too, and who logs out is out', async ({
  page,
  locked,
}) => {
  const token = await locked.token('leaver');
  const host = `${locked.url}/host/${await locked.hostId(token)}`;
  const enter = async (): Promise<void> => {
    await page.getByLabel('Token').fill(token);
    await page.keyboard.press('Enter');
  };
  await page.goto(`${host}/landscape`);
  await enter();
  await expect(page.getByRole('region', { name: 'landscape' })).toBeVisible();
  await page.getByRole('button', { name: 'Log out' }).click();
  await expect(page.getByRole('heading', { name: 'Log in' })).toBeVisible();
  await enter();
  await expect(page.getByRole('region', { name: 'landscape' })).toBeVisible();
  // As when its twelve hours are over.
  await page.context().clearCookies();
  // The page asks for something by itself now and then: it may be at the login already, without the choice.
  await page.getByRole('combobox', { name: 'rows', exact: true }).evaluateAll((found) => {
    for (const rows of found as HTMLSelectElement[]) {
      rows.value = 'process';
      rows.dispatchEvent(new Event('change', { bubbles: true }));
    }
  });
  await expect(page.getByRole('heading', { name: 'Log in' })).toBeVisible();
});
