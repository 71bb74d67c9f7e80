// What people come for, from the first page, in clicks: who made a spike, a process that is gone, CPU by container, who delays whom.
import { spawn } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { test as base, type Locator, type Page } from '@playwright/test';
import { findsNothing } from './axe';
import { drawn, resize } from './layout';
import { Complaints, expect, Receiver, SIMULATED, test } from './receiver';

/** Counts what a user presses. */
class Clicks {
  count = 0;

  async on(target: Locator): Promise<void> {
    this.count += 1;
    await target.click();
  }
}

/** Runs a program of this name for so many ms; waits until the store has it. */
const run = (receiver: Receiver, name: string, ms: number): Promise<void> =>
  loops(receiver, name, 1, () => new Promise((resolve) => setTimeout(resolve, ms)));

/** Runs so many processes of a program of this name, until `isDone`: each gets as much as one of the machine's others. */
async function loops(receiver: Receiver, name: string, count: number, isDone: () => Promise<void>): Promise<void> {
  const program = join(receiver.dir, name);
  copyFileSync('/bin/bash', program);
  const all = Array.from({ length: count }, () => spawn(program, ['-c', 'while :; do :; done'], { stdio: 'ignore' }));
  try {
    await isDone();
  } finally {
    for (const child of all) {
      const ended = new Promise((resolve) => child.on('exit', resolve));
      child.kill('SIGKILL');
      await ended;
    }
  }
  await receiver.hasRecordedNow();
}

/** Whether a program is among those with an area of their own over all that is stored, clearly: on a busy machine it takes longer. */
async function isNamed(receiver: Receiver, name: string): Promise<boolean> {
  const host = `${receiver.url}/api/v1/hosts/${await receiver.local()}`;
  const { kept } = (await (await fetch(`${host}/series?points=10`)).json()) as { kept: { first_ns: string } };
  const answer = await fetch(`${host}/report?limit=6&since=${kept.first_ns}`);
  const { rows } = (await answer.json()) as { rows: { name: string }[] };
  return rows.some((row) => row.name === name);
}

async function firstPage(page: Page, receiver: Receiver): Promise<Clicks> {
  await page.goto(receiver.url);
  await expect(page.getByRole('row').nth(1)).toBeVisible();
  return new Clicks();
}

/** Opens a host of the list, whose order stays once the pointer is on a row. */
async function openHost(page: Page, host: string, clicks: Clicks): Promise<void> {
  const link = page.locator(`main .cell.name a[href*="/host/${host}"]`).first();
  await link.hover();
  await clicks.on(link);
  await expect(page).toHaveURL(new RegExp(`/host/${host}`));
}

/** Opens History of the measured machine: two clicks. */
async function history(page: Page, receiver: Receiver, clicks: Clicks): Promise<void> {
  await openHost(page, await receiver.local(), clicks);
  await clicks.on(page.getByRole('link', { name: 'History' }));
}

const table = (page: Page): Locator => page.getByRole('tabpanel').getByRole('table');

base('the culprit of a spike: named by the first screen of History', async ({ page }) => {
  // One that is young: the plot names what most of all stored time went to.
  const receiver = new Receiver();
  try {
    await receiver.start();
    const complaints = new Complaints(page, receiver.url);
    await receiver.hasRecorded(3);
    let clicks = new Clicks();
    await loops(receiver, 'spike-maker', 6, async () => {
      await expect.poll(() => isNamed(receiver, 'spike-maker')).toBe(true);
      clicks = await firstPage(page, receiver);
      await history(page, receiver, clicks);
      await expect(page.getByRole('region', { name: 'time line' }).locator('.legend')).toContainText('spike-maker');
    });
    const row = table(page).getByRole('row', { name: /spike-maker/ });
    await expect(row).toBeVisible();
    await clicks.on(row.locator('button.peak'));
    await expect(
      page
        .getByRole('treegrid')
        .getByRole('row', { name: /spike-maker/ })
        .first(),
    ).toBeVisible();
    expect(clicks.count).toBeLessThanOrEqual(3);
    expect(complaints.texts).toEqual([]);
  } finally {
    await receiver.close();
  }
});

test('a short-lived process by its name, at an unknown time', async ({ page, receiver }) => {
  // No other test has a program of this name: all receivers measure one machine.
  await receiver.hasRecorded(3);
  await run(receiver, 'nightly-sums', 3_000);
  // The dialog comes later than the first keys.
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  await page.route(/dialogs-/, async (fetched) => {
    await released;
    await fetched.continue();
  });
  const clicks = await firstPage(page, receiver);
  await clicks.on(page.getByRole('button', { name: 'Find' }));
  const dialog = page.getByRole('dialog', { name: 'Find' });
  await page.keyboard.type('nigx');
  await page.keyboard.press('Backspace');
  await expect(page).toHaveURL(/find=nig$/);
  release();
  await expect(dialog.getByRole('searchbox')).toBeFocused();
  await page.keyboard.type('htly');
  const link = dialog.getByRole('link', { name: 'nightly-sums' });
  await expect(link).toBeVisible();
  await findsNothing(page);
  await clicks.on(link);
  await expect(page).toHaveURL(/\/history\?.*in=name%3Anightly-sums/);
  const row = table(page).getByRole('row', { name: /nightly-sums/ });
  await expect(row).toBeVisible();
  const span = ['since', 'until'].map((name) => Number(new URL(page.url()).searchParams.get(name)));
  expect(span[1]! - span[0]!, 'its life').toBeLessThan(30_000);
  await clicks.on(row.getByRole('link'));
  await expect(page.getByRole('heading', { level: 1 })).toContainText('nightly-sums');
  expect(clicks.count).toBeLessThanOrEqual(3);
  // Back and forth, and a text that nothing has.
  await page.goBack();
  await expect(row).toBeVisible();
  await page.keyboard.press('f');
  await dialog.getByRole('searchbox').fill('no-such-program');
  await expect(dialog).toContainText('Nothing stored matches');
  // Once for the text, once for the dialog.
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await expect(dialog).toHaveCount(0);
  await expect(page).not.toHaveURL(/find=/);
});

test('what is found fits the window, however long names of programs and hosts are', async ({ page, receiver }) => {
  await receiver.hasStored(...SIMULATED);
  await receiver.hasRecorded(3);
  await page.route(/\/api\/v1\/find\?/, async (route) => {
    const text = await (await route.fetch()).text();
    const long = 'a-name-with-more-than-forty-characters-';
    await route.fulfill({ contentType: 'application/json', body: text.replaceAll(/"(program|sim)-/g, `"${long}$1-`) });
  });
  for (const width of [1440, 360]) {
    await resize(page, width, 740);
    await page.goto(`${receiver.url}/?find=program`);
    const table = page.getByRole('region', { name: 'what was found' });
    await expect(table).toContainText('a-name-with-more-than-forty-characters-sim-');
    await drawn(page);
    expect(await table.evaluate((one) => one.scrollWidth - one.clientWidth), `${width} px`).toBe(0);
  }
});

test('CPU by container in the last hour', async ({ page, receiver }) => {
  await receiver.hasRecorded(3);
  const clicks = await firstPage(page, receiver);
  await history(page, receiver, clicks);
  await expect(table(page)).toBeVisible();
  clicks.count += 1;
  await page.getByRole('tabpanel').getByRole('combobox', { name: 'rows' }).selectOption('container');
  await expect(table(page).getByRole('columnheader').first()).toHaveText('container');
  await expect(table(page).locator('td.share').first()).toHaveText(/\d/);
  expect(clicks.count).toBeLessThanOrEqual(3);
});

test('who delays whom, by program: the timeline of a recording shows it at once', async ({ page, receiver }) => {
  test.skip(process.getuid?.() !== 0 && !process.env['CI'], 'it needs root for BPF');
  const names = ['render-video', 'web-server'] as const;
  const [first, second] = names;
  // On any number of CPUs each waits for the other.
  const count = 2 * cpus().length;
  const delays = page.getByRole('table', { name: 'Who delayed whom, by program' });
  // Once more where something with many threads ran beside it, which took all six lines.
  await expect(async () => {
    let clicks = new Clicks();
    await loops(receiver, first, count, () =>
      loops(receiver, second, count, async () => {
        clicks = await firstPage(page, receiver);
        await openHost(page, await receiver.local(), clicks);
        await clicks.on(page.getByRole('button', { name: 'Record 10 s' }));
        await expect(page.getByRole('link', { name: /^Open trace/ })).toBeVisible();
      }),
    );
    await clicks.on(page.getByRole('link', { name: /^Open trace/ }));
    expect(clicks.count).toBeLessThanOrEqual(3);
    await expect(delays.locator('[data-part=delay]').first()).toBeVisible();
    for (const waited of names) {
      // Its longest one: behind the other program, or behind a browser or compiler that runs beside this test.
      const row = delays.getByRole('row', { name: new RegExp(`^${waited} `) });
      expect(await row.count(), waited).toBeGreaterThan(0);
      await expect(row.first().locator('[data-part=delay]')).toHaveText(/[1-9]/);
      await expect(row.first(), 'without scrolling').toBeInViewport({ ratio: 1 });
    }
  }).toPass();
  // A name leads to its threads.
  await delays.getByRole('button', { name: first }).first().click();
  await expect(page.getByRole('searchbox', { name: 'filter threads' })).toHaveValue(first);
  await expect(page.getByRole('region', { name: 'table of threads' }).getByRole('row').nth(1)).toContainText(first);
});

test('who is delayed, by program', async ({ page, receiver }) => {
  await receiver.hasRecorded(3);
  const clicks = await firstPage(page, receiver);
  await history(page, receiver, clicks);
  const order = table(page).getByRole('button', { name: 'ready' });
  await clicks.on(order);
  await expect(order).toHaveAttribute('aria-pressed', 'true');
  await expect(page.getByRole('tabpanel')).not.toContainText('Loading');
  const ready = async (): Promise<number[]> =>
    table(page)
      .locator('tbody tr:not(.rest)')
      .evaluateAll((all) => all.map((one) => Number(one.querySelectorAll('td')[6]?.textContent ?? NaN)));
  await expect
    .poll(async () => {
      const values = await ready();
      return values.length > 1 && values.every((value, at) => at === 0 || value <= values[at - 1]!);
    })
    .toBe(true);
  expect(clicks.count).toBeLessThanOrEqual(3);
});
