// What tasks wait for, by what a user reads. In: a receiver that measures wait reasons. Out: words in the grid, in a span and in the view
// of a process; the system call behind them.
import { test } from '@playwright/test';
import { Complaints, expect, ProbingReceiver } from './receiver';

const WORDS = /^(lock|I\/O events|sleep|incoming data) \d+ %$/;
const CALLS = /futex|epoll|poll|nanosleep|recv/;

test('what a task waits for is in words with its share, and the system call is in the tooltip', async ({ page }) => {
  const needs = 'it needs root for BPF';
  test.skip(process.getuid?.() !== 0 && !process.env['CI'], needs);
  const receiver = new ProbingReceiver();
  try {
    await receiver.start();
    const complaints = new Complaints(page, receiver.url);
    const host = `${receiver.url}/host/${await receiver.local()}`;
    await page.goto(`${host}?q=${receiver.pid}&cols=pid,cpu,wait&by=threads&sort=wait`);
    const grid = page.getByRole('treegrid');
    const wait = grid.getByRole('gridcell', { name: WORDS }).first();
    // The first cell is another one in the next second, with the pointer where it was.
    await expect(async () => {
      await wait.hover();
      const title = /^(lock|I\/O events|sleep|incoming data) \(\w+\) \d+ %$/;
      await expect(wait).toHaveAttribute('title', title, { timeout: 2_000 });
    }).toPass();
    await expect(grid.getByRole('gridcell', { name: CALLS })).toHaveCount(0);

    await receiver.hasRecordedNow();
    await page.goto(`${host}/history?since=now-1min&until=now&by=process&q=cpumon`);
    const table = page.getByRole('tabpanel').getByRole('table');
    const cell = table.locator('tbody td.from3.text').filter({ hasText: WORDS }).first();
    await expect(cell).toHaveAttribute('title', /\(\w+\) \d+ %$/);

    await page.goto(`${host}/process/${await receiver.someProcess()}?since=now-1min&until=now`);
    await expect(page.getByRole('region', { name: 'wait reasons' }).getByRole('listitem')).toContainText([
      /(lock|I\/O events|sleep|incoming data) \(\w+\)/,
    ]);
    expect(complaints.texts).toEqual([]);
  } finally {
    await receiver.close();
  }
});
