// How the views look. In: a store that is made here and is the same each time. Out: small pictures, compared with those that are kept
// beside this file. Why: what a test of words does not see, a lost colour or a chart that moved, a picture does. New ones after a change
// that is meant: npm run browser -- looks.spec.ts --update-snapshots, and look at them.
import { execFileSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test as base } from '@playwright/test';
import { Complaints, expect, Receiver } from './receiver';

const BEGIN_MS = 1_767_225_600_000;
const SPAN = `since=${BEGIN_MS}&until=${BEGIN_MS + 600_000}`;
/** In a wave of the encoder, while the job runs. */
const AT = `${BEGIN_MS + 500_000}000000`;
const MAKER = process.env['CPUMON_PICTURE_STORE'] ?? join(import.meta.dirname, '../../target/debug/examples/picture_store');

/** A receiver that only has a past. */
class PastReceiver extends Receiver {
  protected override readonly more = ['--no-agent', '--retain-days', '0'];

  make(): void {
    execFileSync(MAKER, [join(this.dir, 'store.sqlite')]);
  }
}

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

const VIEWS = [
  ['history', 'light', 900, `history?${SPAN}&at=${AT}&open=200-42`],
  ['history-narrow', 'dark', 360, `history?${SPAN}&at=${AT}`],
  ['compare', 'dark', 900, `history?${SPAN}&cmp=1&a=${BEGIN_MS}-${BEGIN_MS + 300_000}&b=${BEGIN_MS + 400_000}-${BEGIN_MS + 600_000}`],
  ['process', 'light', 900, `process/200-42?${SPAN}`],
  ['heatmap', 'dark', 900, `landscape?${SPAN}&as=heatmap`],
] as const;

test('the run queue of the past stands beside the time line, and its hole is one', async ({ page, past }) => {
  await page.goto(`${past.url}/host/picture/history?${SPAN}`);
  const queue = page.getByRole('region', { name: 'run queue' });
  await expect(queue).toContainText(/mean of all CPUs\s*0\.31/);
  const [download] = await Promise.all([page.waitForEvent('download'), queue.getByRole('button', { name: 'SVG' }).click()]);
  expect((await readFile(await download.path(), 'utf8')).match(/<polygon/g)).toHaveLength(2);
  // A day is read from sums of a minute.
  await page.goto(`${past.url}/host/picture/history?since=${BEGIN_MS - 80_000_000}&until=${BEGIN_MS + 600_000}`);
  await expect(queue).toContainText(/longest of one CPU\s*6\.00/);
});

for (const [name, colorScheme, width, path] of VIEWS) {
  test(`looks as it did: ${name}, ${colorScheme}, ${width} px`, async ({ page, past }) => {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width, height: 640 });
    await page.goto(`${past.url}/host/picture/${path}`);
    await expect(page.locator('main canvas, main table').first()).toBeVisible();
    await expect(page.locator('[data-state=loading]')).toHaveCount(0);
    await page.evaluate(() => document.fonts.ready);
    await expect(page).toHaveScreenshot(`${name}.png`, { maxDiffPixelRatio: 0.02, animations: 'disabled' });
  });
}
