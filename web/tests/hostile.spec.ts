// Names that somebody sends to break a page, and more groups than a page can show. In: a store that is made here. Out: text, limits
// and what is left of it.
import { test } from '@playwright/test';
import { boxOf, resize } from './layout';
import { Complaints, expect, PastReceiver } from './receiver';

const HOST = '01'.repeat(16);
const SPAN = 'since=1767225600000&until=1767225630000';
/** 50,000 programs are added up without optimisation, beside other tests. */
const SLOW = { timeout: 400_000 };

test('hostile names are text in every view, and 50,000 programs are a thousand rows and a remainder', async ({
  page,
}) => {
  const past = new PastReceiver();
  try {
    past.make('hostile');
    await past.start();
    const complaints = new Complaints(page, past.url);
    const host = `${past.url}/host/${HOST}`;
    await page.goto(past.url);
    await expect(page.getByRole('table', { name: 'hosts' }).getByRole('link', { name: '=cmd()' })).toBeVisible();
    // Each host has a link, those without a name by their id.
    await expect(page.locator('.cell.name a')).toHaveCount(13);
    for (const width of [360, 760, 1024, 1300, 1440]) {
      await resize(page, width, 900);
      const day = page.locator('.cell.seen a').first();
      const [whole, text] = [await boxOf(day.locator('..')), await boxOf(day)];
      expect(text.width, `day of the last data, ${width} px`).toBeLessThanOrEqual(whole.width);
    }
    await expect(page.getByRole('link', { name: '05'.repeat(16) })).toBeVisible();
    for (const as of ['3d', 'heatmap']) {
      await page.goto(`${host}/landscape?${SPAN}&as=${as}`);
      await expect(page.locator(as === '3d' ? '.scene canvas' : '.names').first()).toBeVisible(SLOW);
      // A host that only the store knows has its name.
      await expect(page.getByRole('banner').locator('.host')).toContainText('<img src=x');
    }
    for (const width of [320, 360, 412, 768, 1024]) {
      await resize(page, width, 740);
      const [name, bar] = [page.locator('header .host'), page.getByRole('banner')];
      expect((await boxOf(name)).width, `part of the name is seen at ${width} px`).toBeGreaterThan(56);
      expect((await boxOf(bar)).height, `lines at ${width} px`).toBeLessThan(width > 760 ? 48 : 70);
    }
    await resize(page, 1440, 900);
    await expect(page.locator('.names li').filter({ hasText: '(no name)' })).toHaveCount(2);
    await expect(page.locator('.names li').filter({ hasText: '__proto__' })).toHaveCount(1);
    await page.goto(`${host}/history?${SPAN}&at=1767225610500000000`);
    await expect(page.getByRole('treegrid').getByText("'; DROP TABLE process--").first()).toBeVisible(SLOW);
    await page.goto(`${host}/history?${SPAN}&rows=50000`);
    const span = page.getByRole('tabpanel');
    // A report has at most 50,000 groups; what the other 13 used is in the row of all others, and their number is not known.
    await expect(span.locator('p.more')).toContainText('1,000 of 50,000 programs. Search for the others', SLOW);
    await expect(span.locator('p.more button')).toHaveCount(0);
    await expect(span.locator('tbody tr:not(.rest)')).toHaveCount(1_000);
    await expect(span.locator('tbody tr.rest')).toHaveCount(1);
    await expect(span.locator('tbody tr.rest')).toContainText('(others)');
    expect(await page.locator('main img').count()).toBe(0);
    await expect(page).not.toHaveTitle(/^owned/);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(1440);
    const refused = await fetch(`${past.url}/api/v1/hosts/${HOST}/report?limit=50000`);
    expect(refused.status).toBe(400);
    expect(complaints.texts).toEqual([]);
  } finally {
    await past.close();
  }
});
