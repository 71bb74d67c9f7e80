// The night before, of several hosts. In: a store that is made here. Out: the busiest host and what it did, in three clicks.
import { test, type Locator } from '@playwright/test';
import { timeLineBox } from './layout';
import { Complaints, expect, PastReceiver } from './receiver';

test('the busiest host last night, and what it did', async ({ page }) => {
  const past = new PastReceiver();
  try {
    past.make('night');
    await past.start();
    const complaints = new Complaints(page, past.url);
    // The morning after.
    await page.clock.setFixedTime(new Date('2026-01-01T07:30:00Z'));
    await page.goto(past.url);
    await expect(page.getByRole('row', { name: /beta/ })).toBeVisible();
    let clicks = 0;
    const click = async (target: Locator): Promise<void> => {
      clicks += 1;
      await target.click();
    };
    await click(page.getByRole('link', { name: 'History' }));
    await click(page.getByRole('button', { name: 'Last night' }));
    // From 22:00 to 06:00 of the browser's zone.
    await expect(page).toHaveURL(/since=1767214800000&until=1767243600000/);
    const first = page.locator('.names a').first();
    await expect(first).toHaveText('beta');
    await click(first);
    const row = page.getByRole('tabpanel').getByRole('table').locator('tbody tr').first();
    await expect(row.locator('td').first()).toHaveText('backup');
    // An hour and a half of 1.8 CPUs.
    await expect(row.locator('td').nth(1)).toHaveText('2 h 42 min');
    expect(clicks).toBeLessThanOrEqual(3);
    // The hour after its last data is not awaited: it has not reported since.
    await page.goto(`${past.url}/host/beta/history?since=1767243600000&until=1767250800000`);
    const plot = page.getByRole('region', { name: 'time line' });
    await timeLineBox(page);
    await plot.getByRole('slider').press('End');
    await expect(plot).toContainText('after the last data, 2026-01-01 07:00:00');
    await expect(plot).not.toContainText('no data yet');
    expect(complaints.texts).toEqual([]);
  } finally {
    await past.close();
  }
});
