// The past, by what a user sees and does: time line, one instant, gaps, two spans, one process, landscape, files.
import type { Page } from '@playwright/test';
import { readFile } from 'node:fs/promises';
import { findsNothing } from './axe';
import { expect, HOSTILE, test, type Receiver } from './receiver';

/** The last minute of the measured machine; waits until there is something in it, up to its end. */
async function openPast(page: Page, receiver: Receiver, view: string, query = ''): Promise<void> {
  await receiver.hasRecorded(6);
  const now = await receiver.hasRecordedNow();
  await page.goto(`${receiver.url}/host/${await receiver.local()}/${view}?since=${now - 60_000}&until=${now}${query}`);
}

const rows = (page: Page) => page.getByRole('treegrid').getByRole('rowgroup').getByRole('row');
const shownTime = (page: Page) => page.getByRole('region', { name: 'host', exact: true }).locator('.when');
const timeLine = (page: Page) => page.getByRole('region', { name: 'time line' });

test('a click on the time line shows the processes and threads of that instant', async ({ page, receiver }) => {
  await openPast(page, receiver, 'history');
  await expect(rows(page).first()).toBeVisible();
  const before = await shownTime(page).innerText();
  const box = await timeLine(page).locator('.u-over').boundingBox();
  if (!box) throw new Error('no time line');
  await page.mouse.click(box.x + box.width * 0.97, box.y + box.height / 2);
  await expect(shownTime(page)).not.toHaveText(before);
  const link = page.url();
  const instant = await shownTime(page).innerText();
  await page.goto('about:blank');
  await page.goto(link);
  await expect(shownTime(page)).toHaveText(instant);
});

test('a view begins once, though it puts its span and its moment into the address', async ({ page, receiver }) => {
  await receiver.hasRecorded(4);
  const asked: string[] = [];
  page.on('request', (request) => {
    const [, what] = /\/api\/.*\/(series|at|landscape)\?(?!limit=1$)/.exec(request.url()) ?? [];
    if (what) asked.push(what);
  });
  const host = `${receiver.url}/host/${await receiver.local()}`;
  await page.goto(`${host}/history`);
  await expect(page).toHaveURL(/since=.*at=/);
  await expect.poll(() => asked).toEqual(['series', 'at']);
  await expect(rows(page).first()).toBeVisible();
  await page.goto(`${host}/landscape?as=heatmap`);
  await expect(page).toHaveURL(/since=/);
  await expect(page.getByRole('application')).toBeVisible();
  await page.getByRole('link', { name: 'Export' }).click();
  await expect(page.locator('code').first()).toBeVisible();
  expect(asked).toEqual(['series', 'at', 'landscape']);
});

test('drag zooms, back returns, keys step, a hole says why', async ({ page, receiver }) => {
  await openPast(page, receiver, 'history');
  await expect(rows(page).first()).toBeVisible();
  const wide = page.url();
  const box = await timeLine(page).locator('.u-over').boundingBox();
  if (!box) throw new Error('no time line');
  await page.mouse.move(box.x + box.width * 0.6, box.y + 30);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.9, box.y + 30, { steps: 5 });
  await page.mouse.up();
  await expect(timeLine(page)).toContainText(/· 1\d\.\d s/);
  await page.goBack();
  await expect.poll(() => new URL(page.url()).searchParams.get('since')).toBe(new URL(wide).searchParams.get('since'));
  const instant = await shownTime(page).innerText();
  await page.locator('body').click({ position: { x: 5, y: 400 } });
  await page.keyboard.press('[');
  await expect(shownTime(page)).not.toHaveText(instant);
  // Long before anything was recorded.
  await page.goto(
    `${receiver.url}/host/${await receiver.local()}/history?since=946684800000&until=946688400000&at=946686600000000000`,
  );
  await expect(page.locator('[data-state=gap]')).toContainText('No data at this moment');
  await page.getByRole('button', { name: /^after: / }).click();
  await expect(rows(page).first()).toBeVisible();
});

test('the last hour opens at the newest instant, though its last point reaches beyond it', async ({
  page,
  receiver,
}) => {
  await receiver.hasRecorded(2);
  await page.goto(`${receiver.url}/host/${await receiver.local()}/history`);
  await expect(rows(page).first()).toBeVisible();
  await expect(page.locator('[data-state=gap]')).toHaveCount(0);
});

test('a span without data says where there is some', async ({ page, receiver }) => {
  await receiver.hasRecorded(2);
  await page.goto(`${receiver.url}/host/${await receiver.local()}/history?since=1000&until=2000000`);
  await expect(page.locator('[data-state=gap]')).toContainText('No data in this span');
  await findsNothing(page);
  await page.getByRole('button', { name: 'show all data' }).click();
  await expect(rows(page).first()).toBeVisible();
});

test('the numbers of a comparison are in sight at 360 px', async ({ page, receiver }) => {
  await page.setViewportSize({ width: 360, height: 740 });
  await receiver.hasRecorded(6);
  const now = Date.now();
  await openPast(
    page,
    receiver,
    'history',
    `&cmp=1&of=process&a=${now - 60_000}-${now - 2000}&b=${now - 30_000}-${now - 2000}`,
  );
  const change = page.getByRole('table').locator('td.change').first();
  await expect(change).toBeVisible();
  const box = await change.boundingBox();
  expect((box?.x ?? 0) + (box?.width ?? 999)).toBeLessThanOrEqual(352);
  await findsNothing(page);
});

test('a view that does not come says so', async ({ page, receiver }) => {
  await page.route('**/assets/History-*.js', (route) => route.abort());
  await page.goto(`${receiver.url}/host/${await receiver.local()}/history`);
  await expect(page.locator('[data-state=lost]')).toContainText('This view failed to load');
  await findsNothing(page);
});

test('two spans side by side', async ({ page, receiver }) => {
  await openPast(page, receiver, 'history');
  await page.getByRole('button', { name: 'Compare' }).click();
  await page.getByRole('button', { name: 'Use range as “before”' }).click();
  await page.getByRole('button', { name: 'Use range as “after”' }).click();
  const table = page.getByRole('table');
  await expect(table.getByRole('row').nth(1)).toContainText(/0\.00/);
  await expect(page).toHaveURL(/a=\d+-\d+&b=\d+-\d+/);
  await expect(table.getByRole('row', { name: HOSTILE })).toBeVisible();
  const by = page.getByRole('region', { name: 'compare two spans' }).getByRole('combobox');
  await by.selectOption('process');
  await expect(table.getByRole('row', { name: /onerror.*> \d+ / }).first()).toBeVisible();
  await by.selectOption('user');
  await expect(table.getByRole('row', { name: /^0 \(root\)/ })).toBeVisible();
});

test('two spans as a file, and the command line of it', async ({ page, receiver }) => {
  await receiver.hasRecorded(4);
  const now = Date.now();
  await openPast(
    page,
    receiver,
    'history',
    `&cmp=1&of=process&a=${now - 60_000}-${now - 2000}&b=${now - 30_000}-${now - 2000}`,
  );
  await page
    .getByRole('region', { name: 'compare two spans' })
    .getByRole('button', { name: 'Data', exact: true })
    .click();
  const dialog = page.getByRole('dialog', { name: 'Two spans as a file' });
  await expect(dialog.locator('code').first()).toContainText(
    /^cpumon export compare --store=\S+ --host=\S+ --before=\S+Z\.\.\S+Z --after=\S+Z\.\.\S+Z --by=process --format=csv$/,
  );
  const [csv] = await Promise.all([
    page.waitForEvent('download'),
    dialog.getByRole('link', { name: 'Download' }).click(),
  ]);
  expect(csv.suggestedFilename()).toBe('cpumon-compare.csv');
  const text = await readFile(await csv.path(), 'utf8');
  expect(text).toMatch(/^host,name,pid,start_ns,before_cpu_pct,/);
  expect(text).toContain('"<img src=x onerror=""document.title=`owned`"">"');
  await dialog.getByRole('button', { name: 'JSON lines' }).click();
  await expect(dialog.locator('code').first()).toContainText('--format=jsonl');
  await findsNothing(page);
  await page.keyboard.press('Escape');
  await expect(dialog).toHaveCount(0);
});

test('the rows of each view as a file, and the command line of it', async ({ page, receiver }) => {
  const dialog = page.getByRole('dialog', { name: /as a file/ });
  const of = async (region: string, command: RegExp): Promise<void> => {
    await page
      .getByRole('region', { name: region, exact: true })
      .getByRole('button', { name: 'Data', exact: true })
      .click();
    await expect(dialog.locator('code').first()).toContainText(command);
  };
  await receiver.hasRecorded(6);
  await openPast(page, receiver, 'history', `&at=${Date.now() - 3000}000000`);
  await expect(rows(page).first()).toBeVisible();
  await of('time line', /^cpumon export ledger --store=\S+ --host=\S+ --since=\S+ --until=\S+ --format=csv$/);
  await page.keyboard.press('Escape');
  await of('tasks', /^cpumon export processes /);
  const [csv] = await Promise.all([
    page.waitForEvent('download'),
    dialog.getByRole('link', { name: 'Download' }).click(),
  ]);
  const lines = (await readFile(await csv.path(), 'utf8')).trimEnd().split('\r\n');
  // One interval, the one on screen.
  const end = lines[0]!.split(',').indexOf('end_ns');
  expect(new Set(lines.slice(1).map((line) => line.split(',')[end])).size).toBe(1);
  await dialog.getByRole('link', { name: 'Export' }).click();
  await expect(page).toHaveURL(/\/export\?since=/);
  await openPast(page, receiver, 'landscape', '&as=heatmap&rows=process');
  await of('landscape', /^cpumon export pivot .* --by=process --value=run /);
  await openPast(page, receiver, `process/${await receiver.someProcess()}`);
  await of('threads over time', /^cpumon export threads .* --process=\d+ /);
});

test('a process over time: states, threads, what is not measured', async ({ page, receiver }) => {
  await openPast(page, receiver, 'history', '&q=onerror');
  await expect(rows(page).first()).toContainText(HOSTILE.slice(0, 10));
  await rows(page).first().dblclick();
  await expect(page).toHaveURL(/\/process\//);
  await expect(page.getByRole('heading', { level: 1 })).toContainText('<img src=x');
  expect(await page.locator('main img').count()).toBe(0);
  await expect(page.getByRole('region', { name: 'sums' })).toContainText(/run\s*\d/);
  await expect(page.getByRole('region', { name: 'threads over time' }).getByRole('application')).toBeVisible();
  await page.getByRole('application').focus();
  await page.keyboard.press('ArrowLeft');
  await expect(page.getByRole('region', { name: 'threads over time' }).getByRole('status')).toContainText(
    /%CPU|no data/,
  );
});

/** To the left until a cell has a value, which it returns as shown: intervals may be longer than a column is wide. */
async function walkToData(page: Page): Promise<string> {
  const readout = page.getByRole('region', { name: 'landscape' }).getByRole('status');
  let text = '';
  await page.getByRole('application').focus();
  await expect(async () => {
    await page.keyboard.press('ArrowLeft');
    text = (await readout.textContent()) ?? '';
    expect(text).toMatch(/%CPU, highest interval \d/);
  }).toPass({ intervals: [50] });
  return text;
}

test('the landscape: bars, and the same data as a heatmap', async ({ page, receiver }) => {
  await openPast(page, receiver, 'landscape');
  await expect(page.getByRole('region', { name: 'landscape' }).locator('canvas').first()).toBeVisible();
  await page.getByRole('button', { name: 'Heatmap' }).click();
  await walkToData(page);
  // A mean hides short spikes: the highest of each cell does not, and is not below it.
  const button = page.getByRole('group', { name: 'cells' }).getByRole('button', { name: 'Highest' });
  await Promise.all([page.waitForResponse(/\/landscape\?.*sort=highest/), button.click()]);
  await expect(page).toHaveURL(/cells=highest/);
  const text = await walkToData(page);
  const [mean, highest] = /([\d.,]+) %CPU, highest interval ([\d.,]+)/.exec(text)!.slice(1).map(Number);
  expect(highest! + 0.1).toBeGreaterThanOrEqual(mean!);
  await expect(async () => {
    await page.keyboard.press('Enter');
    await expect(page).toHaveURL(/\/history/, { timeout: 2_000 });
  }).toPass();
});

test('the 3D code is loaded only for the landscape', async ({ page, receiver }) => {
  const asked: string[] = [];
  page.on('request', (request) => asked.push(request.url()));
  await openPast(page, receiver, 'history');
  await expect(rows(page).first()).toBeVisible();
  expect(asked.filter((url) => url.includes('landscape3d'))).toEqual([]);
  await page.getByRole('link', { name: 'Landscape' }).click();
  await expect.poll(() => asked.filter((url) => url.includes('landscape3d')).length).toBeGreaterThan(0);
});

test('a narrow window begins with the heatmap, and shows bars when asked', async ({ page, receiver }) => {
  const asked: string[] = [];
  page.on('request', (request) => asked.push(request.url()));
  await page.setViewportSize({ width: 360, height: 740 });
  await openPast(page, receiver, 'landscape');
  await expect(page.getByRole('application')).toBeVisible();
  expect(asked.filter((url) => url.includes('landscape3d'))).toEqual([]);
  await page.getByRole('button', { name: '3D' }).click();
  await expect(page.locator('.scene canvas').first()).toBeVisible();
  await expect(page).toHaveURL(/as=3d/);
});

test('bars are turned and come closer from the keyboard', async ({ page, receiver }) => {
  await openPast(page, receiver, 'landscape');
  const scene = page.locator('.scene');
  await expect(scene.locator('canvas').first()).toBeVisible();
  const still = async (): Promise<Buffer> => {
    let last = await scene.screenshot();
    for (let turn = 0; turn < 20; turn += 1) {
      const next = await scene.screenshot();
      if (next.equals(last)) break;
      last = next;
    }
    return last;
  };
  for (const name of ['Turn to the left', 'From further above', 'Closer']) {
    const before = await still();
    await page.getByRole('button', { name }).focus();
    await page.keyboard.press('Enter');
    await expect.poll(async () => (await scene.screenshot()).equals(before), name).toBe(false);
  }
});

test('a link has the camera of the bars, wherever it was put', async ({ page, receiver }) => {
  await openPast(page, receiver, 'landscape');
  const scene = page.locator('.scene');
  await expect(scene.locator('canvas').first()).toBeVisible();
  const home = page.getByRole('button', { name: 'Reset view' });
  await expect(home).toBeDisabled();
  await page.getByRole('button', { name: 'Turn to the left' }).click();
  await expect(page).toHaveURL(/camera=26%2C38%2C\d+/);
  // A drag reports its end.
  const box = (await scene.boundingBox())!;
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2 + 90, box.y + box.height / 2 + 40, { steps: 5 });
  await page.mouse.up();
  await expect(page).not.toHaveURL(/camera=26%2C38%2C\d+/);
  await expect
    .poll(async () => {
      const address = page.url();
      await page.waitForTimeout(700);
      return page.url() === address;
    }, 'the camera has stopped')
    .toBe(true);
  const address = page.url();
  await page.goto(address);
  await expect(scene.locator('canvas').first()).toBeVisible();
  await page.waitForTimeout(1000);
  expect(page.url(), 'the link is not rewritten').toBe(address);
  await home.click();
  await expect(page).not.toHaveURL(/camera=/);
  await expect(home).toBeDisabled();
  await page.waitForTimeout(700);
  expect(page.url(), 'at first is no place of its own').not.toContain('camera=');
});

test('files, with the command that gives the same', async ({ page, receiver }) => {
  await openPast(page, receiver, 'export');
  await page.getByRole('radio', { name: /Pivot/ }).check();
  await expect(page.locator('code').first()).toContainText(/cpumon export pivot --store/);
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Download' }).click(),
  ]);
  const text = await readFile(await download.path(), 'utf8');
  expect(text.split('\r\n')[0]).toMatch(/^host,begin_utc/);
  expect(text.split('\r\n').length).toBeGreaterThan(3);
});

test('what is on the live plot is saved too, and 3D bars as they are turned', async ({ page, receiver }) => {
  await receiver.hasRecorded(4);
  await page.goto(`${receiver.url}/host/${await receiver.local()}`);
  const dialog = page.getByRole('dialog');
  await page.getByRole('region', { name: 'plot' }).getByRole('button', { name: 'SVG' }).click();
  await expect(dialog.locator('code')).toContainText('cpumon export chart cpu --store=');
  const [live] = await Promise.all([
    page.waitForEvent('download'),
    dialog.getByRole('link', { name: 'Download' }).click(),
  ]);
  expect(await readFile(await live.path(), 'utf8')).toMatch(/^<svg .*>user<\/text>/s);
  await page.keyboard.press('Escape');
  await expect(dialog).toHaveCount(0);
  // Each CPU in the very interval that is shown, be it a moment old.
  await page.getByRole('group', { name: 'save the CPU bars' }).getByRole('button', { name: 'SVG' }).click();
  await expect(dialog.locator('code')).toContainText('cpumon export chart cpus --store=');
  const [bars] = await Promise.all([
    page.waitForEvent('download'),
    dialog.getByRole('link', { name: 'Download cpumon-cpus.svg' }).click(),
  ]);
  const each = await readFile(await bars.path(), 'utf8');
  expect(each).toMatch(/>CPU 0<\/text>.*>One interval of \d\.\d{3} s\.<\/text>/s);
  await page.keyboard.press('Escape');
  await expect(dialog).toHaveCount(0);
  await openPast(page, receiver, 'landscape');
  await expect(page.locator('.scene canvas').first()).toBeVisible();
  await page.getByRole('button', { name: 'PNG' }).click();
  await expect(dialog).toContainText('as they are turned');
  const [turned] = await Promise.all([
    page.waitForEvent('download'),
    dialog.getByRole('link', { name: 'Download cpumon-landscape-3d.png' }).click(),
  ]);
  const bytes = await readFile(await turned.path());
  expect([...bytes.subarray(0, 8)]).toEqual([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
});
