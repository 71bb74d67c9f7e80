// Pictures of the views. In: a store that is made here and is the same each time. Out: small pictures, compared with those that are kept
// beside this file. Why: what a test of words does not see, a lost colour or a chart that moved, a picture does. New ones after a change
// that is meant: npm run browser -- pictures.spec.ts --update-snapshots, and check them.
import { execFileSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test as base } from '@playwright/test';
import { findsNothing } from './axe';
import { boxOf, resize, timeLineBox } from './layout';
import { Complaints, CPUMON, expect, PastReceiver } from './receiver';

const BEGIN_MS = 1_767_225_600_000;
const SPAN = `since=${BEGIN_MS}&until=${BEGIN_MS + 600_000}`;
/** In a wave of the encoder, while the job runs. */
const AT = `${BEGIN_MS + 500_000}000000`;
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
  ['span', 'light', 900, `history?${SPAN}&part=${BEGIN_MS + 200_000}-${BEGIN_MS + 400_000}`],
  ['span-narrow', 'dark', 360, `history?${SPAN}&by=process`],
  [
    'compare',
    'dark',
    900,
    `history?${SPAN}&cmp=1&a=${BEGIN_MS}-${BEGIN_MS + 300_000}&b=${BEGIN_MS + 400_000}-${BEGIN_MS + 600_000}`,
  ],
  ['process', 'light', 900, `process/200-42?${SPAN}`],
  ['heatmap', 'dark', 900, `landscape?${SPAN}&as=heatmap`],
] as const;

test('the run queue of the past is beside the time line, and its hole is one', async ({ page, past }) => {
  await page.goto(`${past.url}/host/picture/history?${SPAN}`);
  const queue = page.getByRole('region', { name: 'run queue' });
  await expect(queue).toContainText(/mean of all CPUs\s*0\.31/);
  // A day is read from sums of a minute.
  await page.goto(`${past.url}/host/picture/history?since=${BEGIN_MS - 80_000_000}&until=${BEGIN_MS + 600_000}`);
  await expect(queue).toContainText(/longest of one CPU\s*6\.00/);
  // On a phone it comes after the rows.
  await resize(page, 390, 844);
  const tops = [queue, page.getByRole('tabpanel')].map(async (one) => (await boxOf(one)).y);
  const [ofQueue = 0, ofRows = 0] = await Promise.all(tops);
  expect(ofQueue).toBeGreaterThan(ofRows);
});

test('a click on a point of a day opens its busiest interval, with the mouse and with the keyboard', async ({
  page,
  past,
}) => {
  const day = `since=${BEGIN_MS - 85_800_000}&until=${BEGIN_MS + 600_000}`;
  await page.goto(`${past.url}/host/picture/history?${day}`);
  const line = page.getByRole('region', { name: 'time line' }).getByRole('slider');
  await timeLineBox(page);
  const opened = async (): Promise<number> => {
    await expect(page).toHaveURL(/at=\d+/);
    return Number(new URL(page.url()).searchParams.get('at')!.slice(0, -6));
  };
  // The last points hold two minutes each; the busiest second of one is where the encoder's wave is highest.
  await line.focus();
  await page.keyboard.press('End');
  for (let turn = 0; turn < 2; turn += 1) await page.keyboard.press('ArrowLeft');
  await expect(line).toHaveAttribute('aria-valuetext', /\d\d:\d\d:\d\d, .*peak interval/);
  await page.keyboard.press('Enter');
  const at = await opened();
  const bucket = await page.evaluate(
    async ([from, ms]) => {
      type Series = { begin_ns: string; width_ns: number; columns: { busy_ns: { max: number[] } } };
      const { begin_ns, width_ns } = (await (
        await fetch(`/api/v1/hosts/picture/series?${from}&points=700`)
      ).json()) as Series;
      const pointAt = (first: string, width: number): number => Math.floor((ms * 1e6 - Number(first) - 1) / width);
      const begin = (Number(begin_ns) + pointAt(begin_ns, width_ns) * width_ns) / 1e6;
      const of = (await (
        await fetch(
          `/api/v1/hosts/picture/series?since=${begin * 1e6}&until=${begin * 1e6 + width_ns}` +
            `&points=${Math.ceil(width_ns / 1e9) * 4}&columns=busy_ns`,
        )
      ).json()) as Series;
      const rates = of.columns.busy_ns.max;
      return { most: Math.max(...rates), here: rates[pointAt(of.begin_ns, of.width_ns)] };
    },
    [day.replace(/(\d{13})/g, '$1000000'), at] as const,
  );
  expect(bucket.here).toBe(bucket.most);
});

/** Each chart that can be saved: where it is, and its name. */
const CHARTS = [
  ['history', `history?${SPAN}&at=${AT}`, 'time line', 'who', 'light'],
  ['history by mode', `history?${SPAN}&at=${AT}&chart=mode`, 'time line', 'cpu', 'dark'],
  ['history of a search', `history?${SPAN}&by=thread&q=worker&in=name:encoder&unit=host`, 'time line', 'who', 'light'],
  [
    'history of a selection',
    `history?${SPAN}&at=${AT}&plot=200-42~encoder,200-42/201-42~worker-1`,
    'time line',
    'tasks',
    'dark',
  ],
  ['run queue', `history?${SPAN}&at=${AT}`, 'run queue', 'run-queue', 'dark'],
  ['CPU bars', `history?${SPAN}&at=${AT}&accounts=1`, 'accounts and interrupts', 'cpus', 'light'],
  ['states', `process/200-42?${SPAN}&blocked=1`, 'states over time', 'states', 'light'],
  ['run delay', `process/200-42?${SPAN}`, 'run delay over time', 'delays', 'dark'],
  ['threads', `process/200-42?${SPAN}&tz=utc`, 'threads over time', 'threads', 'light'],
  ['landscape', `landscape?${SPAN}&as=heatmap&rows=process`, 'landscape', 'landscape', 'dark'],
  ['highest intervals', `landscape?${SPAN}&as=heatmap&cells=highest`, 'landscape', 'landscape', 'light'],
] as const;

for (const [nth, [what, path, region, view, theme]] of CHARTS.entries()) {
  test(`the command line gives the very file that the page saves: ${what}`, async ({ page, past }) => {
    await page.emulateMedia({ colorScheme: nth % 2 === 0 ? 'dark' : 'light' });
    await page.goto(`${past.url}/host/picture/${path}`);
    const form = nth % 3 === 0 ? 'png' : 'svg';
    await page
      .getByRole('region', { name: region, exact: true })
      .getByRole('button', { name: form.toUpperCase() })
      .click();
    const dialog = page.getByRole('dialog');
    if (theme === 'dark') await dialog.getByRole('button', { name: 'Dark' }).click();
    await expect(dialog.locator('code')).toContainText(
      theme === 'dark' ? '--theme=dark' : `cpumon export chart ${view} `,
    );
    await expect(dialog.locator('.seen')).toHaveAttribute('aria-busy', 'false');
    await expect
      .poll(() => dialog.locator('img').evaluate((image: HTMLImageElement) => image.complete && image.naturalWidth))
      .toBeGreaterThan(300);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      dialog.getByRole('link', { name: 'Download' }).click(),
    ]);
    expect(download.suggestedFilename()).toBe(`cpumon-${view}.${form}`);
    const saved = await readFile(await download.path());
    // Exactly as shown, where the program is on the path.
    const env = { ...process.env, PATH: `${dirname(CPUMON)}:${process.env['PATH'] ?? ''}` };
    execFileSync('sh', ['-c', await dialog.locator('code').innerText()], { cwd: past.dir, env });
    const written = await readFile(join(past.dir, `cpumon-${view}.${form}`));
    expect(written.equals(saved)).toBe(true);
    // Its own colours, whatever scheme the page has.
    if (form === 'svg') expect(saved.toString()).toContain(theme === 'dark' ? '#141a21' : '#ffffff');
    // The dialog is the same one for each.
    if (nth === 0) await findsNothing(page);
  });
}

test('the saved chart of who ran has the groups of the plot, in its order, and those of the table', async ({
  page,
  past,
}) => {
  for (const query of ['by=process', 'by=user&q=root', 'by=thread']) {
    await page.goto(`${past.url}/host/picture/history?${SPAN}&${query}`);
    const line = page.getByRole('region', { name: 'time line' });
    await expect(line.locator('.legend')).toContainText('others');
    await expect(line).toHaveAttribute('aria-busy', 'false');
    const shown = await line.locator('.legend .entry .name').allInnerTexts();
    const listed = page.getByRole('tabpanel').getByRole('table').locator('tbody tr:not(.rest)');
    await expect(listed.first()).toBeVisible();
    const rows = await listed.allInnerTexts();
    await line.getByRole('button', { name: 'SVG' }).click();
    const dialog = page.getByRole('dialog');
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      dialog.getByRole('link', { name: 'Download' }).click(),
    ]);
    const saved = await readFile(await download.path(), 'utf8');
    const texts = [...saved.matchAll(/>([^<>]*)<\/text>/g)].map(([, text]) =>
      text!.replace('&lt;', '<').replace('&gt;', '>'),
    );
    const legend = texts.filter((text) => shown.includes(text));
    expect(legend).toEqual(shown);
    expect(shown.at(-1)).toBe('peak interval');
    for (const [nth, row] of rows.slice(0, 8).entries()) expect(row).toContain(shown[nth]!.replace(/ \d+$/, ''));
    await dialog.getByRole('button', { name: 'Close' }).click();
    // Data of the same.
    await line.getByRole('button', { name: 'Data', exact: true }).click();
    await expect(page.getByRole('dialog').locator('code')).toContainText(`cpumon report --store=`);
    await page.keyboard.press('Escape');
  }
});

test('on paper all of a view is in sight, in the colours for white', async ({ page, past }) => {
  await page.emulateMedia({ colorScheme: 'dark' });
  await resize(page, 1440, 900);
  await page.goto(`${past.url}/host/picture/history?${SPAN}&at=${AT}`);
  const line = page.getByRole('region', { name: 'time line' });
  await expect(line.locator('.legend')).toContainText('others');
  await expect(line).toHaveAttribute('aria-busy', 'false');
  await expect(page.getByRole('treegrid').getByRole('row')).toHaveCount(4);
  /** How many pixels of the plot have the colour of the grid for white, and for black. */
  const grid = (): Promise<{ white: number; black: number }> =>
    line.locator('canvas').evaluate((one: HTMLCanvasElement) => {
      const { data } = one.getContext('2d')!.getImageData(0, 0, one.width, one.height);
      const found = { white: 0, black: 0 };
      for (let at = 0; at < data.length; at += 4) {
        const color = `${data[at]},${data[at + 1]},${data[at + 2]}`;
        if (color === '221,227,233') found.white += 1;
        if (color === '36,46,57') found.black += 1;
      }
      return found;
    });
  await expect.poll(async () => (await grid()).black).toBeGreaterThan(100);
  // The browser takes the page as it is once this event was handled.
  await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
  expect((await grid()).white).toBeGreaterThan(100);
  await page.evaluate(() => dispatchEvent(new Event('afterprint')));
  expect((await grid()).white).toBe(0);
  // As wide as a page of A4.
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  await resize(page, 718, 1000);
  await expect.poll(async () => (await grid()).black).toBe(0);
  expect((await grid()).white).toBeGreaterThan(100);
  for (const canvas of await page.locator('.u-wrap canvas').all()) {
    const box = await boxOf(canvas);
    expect(box.x).toBeGreaterThanOrEqual(8);
    expect(box.x + box.width).toBeLessThanOrEqual(710);
  }
  const pane = await boxOf(page.getByRole('region', { name: 'tasks' }));
  const last = await boxOf(page.getByRole('treegrid').getByRole('row').last());
  expect(last.y + last.height).toBeLessThanOrEqual(pane.y + pane.height);
  expect(pane.y + pane.height - last.y - last.height).toBeLessThan(40);
  await page.evaluate(() => document.fonts.ready);
  await expect(page).toHaveScreenshot('paper.png', { maxDiffPixelRatio: 0.02, animations: 'disabled', fullPage: true });
});

for (const [name, colorScheme, width, path] of VIEWS) {
  test(`is drawn as before: ${name}, ${colorScheme}, ${width} px`, async ({ page, past }) => {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await resize(page, width, 640);
    await page.goto(`${past.url}/host/picture/${path}`);
    await expect(page.locator('main canvas, main table').first()).toBeVisible();
    await expect(page.locator('[data-state=loading]')).toHaveCount(0);
    // The plot by who ran takes the place of another one.
    if (path.startsWith('history?'))
      await expect(page.getByRole('region', { name: 'time line' })).toHaveAttribute('aria-busy', 'false');
    await page.evaluate(() => document.fonts.ready);
    await expect(page).toHaveScreenshot(`${name}.png`, { maxDiffPixelRatio: 0.02, animations: 'disabled' });
  });
}
