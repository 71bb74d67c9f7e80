// The receiver goes away and comes back. In: a view of the past. Out: it says so, and goes on by itself.
import { expect, test } from './receiver';

test('a view of the past says that the receiver is away, and goes on when it is back', async ({ page, receiver }) => {
  const until = await receiver.hasRecorded(6);
  const host = `${receiver.url}/host/${await receiver.local()}`;
  await page.goto(`${host}/history?since=${until - 30_000}&until=${until}&tab=instant`);
  const rows = page.getByRole('treegrid').getByRole('rowgroup').getByRole('row');
  await expect(rows.first()).toBeVisible();
  await receiver.stop();
  await page.keyboard.press('[');
  const chip = page.getByRole('banner').getByRole('status');
  await expect(chip).toContainText('receiver lost');
  await expect(page.locator('[data-state=lost]')).toContainText('Receiver lost');
  await page.getByRole('tab', { name: /^Span/ }).click();
  await expect(page.getByRole('tabpanel').locator('[data-state=lost]')).toBeVisible();
  await receiver.start();
  await expect(page.getByRole('tabpanel').getByRole('table')).toBeVisible();
  await page.getByRole('tab', { name: /^Instant/ }).click();
  await expect(rows.first()).toBeVisible();
  await expect(chip).toContainText('viewing');
  await expect(page.locator('[data-state=lost]')).toHaveCount(0);
});
