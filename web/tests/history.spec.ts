// The past, by what a user sees and does: time line, one instant, gaps, two spans, one process, landscape, files.
import type { Page } from '@playwright/test';
import { readFile } from 'node:fs/promises';
import { findsNothing } from './axe';
import { boxOf, resize, styled, timeLineBox } from './layout';
import { expect, HOSTILE, test, type Receiver } from './receiver';

/** The last minute of the measured machine; waits until there is something in it, up to its end. */
async function openPast(page: Page, receiver: Receiver, view: string, query = ''): Promise<void> {
  const until = await receiver.hasRecorded(6);
  await page.goto(
    `${receiver.url}/host/${await receiver.local()}/${view}?since=${until - 60_000}&until=${until}${query}`,
  );
}

/** A window for pictures that are drawn without a graphics card: half the pixels. */
const small = (page: Page): Promise<void> => resize(page, 900, 600);

const rows = (page: Page) => page.getByRole('treegrid').getByRole('rowgroup').getByRole('row');
const shownTime = (page: Page) => page.getByRole('region', { name: 'host', exact: true }).locator('.when');
const timeLine = (page: Page) => page.getByRole('region', { name: 'time line' });

test('a click on the time line shows the processes and threads of that instant', async ({ page, receiver }) => {
  await openPast(page, receiver, 'history', '&tab=instant');
  await expect(rows(page).first()).toBeVisible();
  const before = await shownTime(page).innerText();
  const box = await timeLineBox(page);
  await page.mouse.click(box.x + box.width * 0.92, box.y + box.height / 2);
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
    const [, what] = /\/api\/.*\/(series|charts|report|at)\?(?!limit=1$)/.exec(request.url()) ?? [];
    // Since when data is stored.
    if (what) asked.push(what === 'series' ? 'stored' : what);
  });
  const host = `${receiver.url}/host/${await receiver.local()}`;
  await page.goto(`${host}/history`);
  await expect(page).toHaveURL(/since=/);
  await expect(page.getByRole('table').getByRole('row').nth(1)).toBeVisible();
  // Two for the charts, one for the table.
  await expect.poll(() => [...asked].sort()).toEqual(['charts', 'charts', 'report']);
  await page.getByRole('tab', { name: 'Instant' }).click();
  await expect(page).toHaveURL(/at=/);
  await expect(rows(page).first()).toBeVisible();
  await page.goto(`${host}/landscape?as=heatmap`);
  await expect(page).toHaveURL(/since=/);
  await expect(page.getByRole('application')).toBeVisible();
  await page.getByRole('link', { name: 'Export' }).click();
  await expect(page.locator('code').first()).toBeVisible();
  // One for the chart of the landscape, whose answer says what is stored.
  expect([...asked].sort()).toEqual(['at', 'charts', 'charts', 'charts', 'report', 'stored']);
});

/** Presses, moves and releases the mouse on the time line; both in parts of its width. */
async function drag(page: Page, from: number, to: number): Promise<void> {
  const box = await timeLineBox(page);
  await page.mouse.move(box.x + box.width * from, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * to, box.y + 20, { steps: 5 });
  await page.mouse.up();
}

const spanTable = (page: Page) => page.getByRole('tabpanel').getByRole('table');

test('a drag selects a span, which the table shows; Zoom zooms, back returns, Esc clears', async ({
  page,
  receiver,
}) => {
  await openPast(page, receiver, 'history');
  await expect(spanTable(page).getByRole('row').nth(1)).toBeVisible();
  const whole = new URL(page.url()).searchParams.get('since');
  await drag(page, 0.6, 0.9);
  await expect(page).toHaveURL(/part=\d+-\d+/);
  const bar = page.getByRole('group', { name: 'selected span' });
  await expect(bar).toContainText(/1[78]\.\d s/);
  const tab = page.getByRole('tab', { selected: true });
  await expect(tab).toHaveText(/^Span \d\d:\d\d:\d\d–/);
  const asked = page.waitForRequest(/\/report\?.*compare=/);
  await bar.getByRole('button', { name: 'Compare with before' }).click();
  const [, part] = /part=([\d-]+)/.exec(page.url())!;
  const [since, until] = part!.split('-').map(Number) as [number, number];
  const params = new URL((await asked).url()).searchParams;
  expect(params.get('since')).toBe(`${since}000000`);
  expect(params.get('compare')).toBe(`${since - (until - since)}000000..${since}000000`);
  await bar.getByRole('button', { name: 'Save' }).click();
  await expect(page.getByRole('dialog').locator('code').first()).toContainText(/^cpumon report .* --since=/);
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  await findsNothing(page);
  await bar.getByRole('button', { name: 'Zoom' }).click();
  await expect.poll(() => new URL(page.url()).searchParams.get('since')).toBe(String(since));
  await expect(bar).toHaveCount(0);
  await page.goBack();
  await expect.poll(() => new URL(page.url()).searchParams.get('since')).toBe(whole);
  await expect(bar).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(bar).toHaveCount(0);
  await expect(page).not.toHaveURL(/part=/);
});

test('a span is selected from the keyboard, and with a finger', async ({ page, receiver }) => {
  await openPast(page, receiver, 'history');
  await expect(spanTable(page).getByRole('row').nth(1)).toBeVisible();
  await timeLineBox(page);
  await timeLine(page).getByRole('slider').focus();
  await page.keyboard.press('End');
  for (let turn = 0; turn < 40; turn += 1) await page.keyboard.press('Shift+ArrowLeft');
  const bar = page.getByRole('group', { name: 'selected span' });
  await expect(bar).toBeVisible();
  const length = (): number => {
    const [since = 0, until = 0] = (new URL(page.url()).searchParams.get('part') ?? '').split('-').map(Number);
    return until - since;
  };
  await expect.poll(length).toBeGreaterThan(2_000);
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await expect(bar).toHaveCount(0);
  const box = await timeLineBox(page);
  const session = await page.context().newCDPSession(page);
  const touch = (type: 'touchStart' | 'touchMove', part: number) =>
    session.send('Input.dispatchTouchEvent', {
      type,
      touchPoints: [{ x: box.x + box.width * part, y: box.y + 40 }],
    });
  await touch('touchStart', 0.5);
  for (const part of [0.55, 0.6, 0.7, 0.75]) await touch('touchMove', part);
  await session.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] });
  await expect(bar).toBeVisible();
  expect(Math.abs(length() - 15_000)).toBeLessThan(1_000);
});

test('the rows of a span by any group lead to what they are, and add up', async ({ page, receiver }) => {
  await openPast(page, receiver, 'history', '&by=user');
  const table = spanTable(page);
  await expect(table.getByRole('link', { name: 'root', exact: true })).toBeVisible();
  await table.getByRole('link', { name: 'root', exact: true }).click();
  await expect(page).toHaveURL(/by=process.*in=user%3Aroot/);
  await expect(page.getByRole('button', { name: 'user root ×' })).toBeVisible();
  // Whatever a program is called, it is text.
  await page.getByRole('searchbox').fill('onerror');
  const row = table.getByRole('row', { name: HOSTILE });
  await expect(row.first()).toBeVisible();
  await expect(table.getByRole('row', { name: '(others)' })).toBeVisible();
  const shares = await table
    .locator('tbody tr')
    .evaluateAll((all) => all.map((one) => Number(one.querySelector('td.share')?.textContent ?? NaN)));
  expect(Math.abs(shares.reduce((sum, share) => sum + share, 0) - 100)).toBeLessThan(0.5);
  // Its peak is an instant, and its name the process.
  await row.first().locator('button.peak').click();
  await expect(page).toHaveURL(/at=\d+/);
  await expect(rows(page).first()).toContainText(HOSTILE.slice(0, 10));
  await page.goBack();
  await row.first().getByRole('link').click();
  await expect(page).toHaveURL(/\/process\/\d+-\d+\?/);
  await expect(page.getByRole('heading', { level: 1 })).toContainText('<img src=x');
});

test('rows of a span are in order of any column, which the link keeps; threads lead to their process', async ({
  page,
  receiver,
}) => {
  await openPast(page, receiver, 'history', '&by=thread');
  const table = spanTable(page);
  const values = (nth: number): Promise<string[]> =>
    table.locator(`tbody tr:not(.rest) td:nth-child(${nth})`).allInnerTexts();
  for (const [title, column] of [
    ['first', 13],
    ['last', 14],
  ] as const) {
    await table.getByRole('button', { name: title, exact: true }).click();
    await expect(page).toHaveURL(new RegExp(`sort=-${title}`));
    await expect(table.getByRole('columnheader', { name: title })).toHaveAttribute('aria-sort', 'descending');
    // Midnight may be between them.
    await expect
      .poll(async () => {
        const times = (await values(column)).map((text) => Date.parse(`1970-01-01T${text}Z`));
        const before = times.map((time) => (times[0]! - time + 86_400_000) % 86_400_000);
        return times.length > 1 && before.every((ms, at) => ms < 43_200_000 && (at === 0 || ms >= before[at - 1]!));
      })
      .toBe(true);
  }
  await page.goto(page.url().replace('sort=-last', 'sort=-peak'));
  await expect
    .poll(async () => {
      const peaks = (await values(6)).map((text) => parseFloat(text.replace(/[^\d.]/g, '')));
      return peaks.length > 1 && peaks.every((peak, at) => at === 0 || !(peak > peaks[at - 1]!));
    })
    .toBe(true);
  await table.locator('tbody tr:not(.rest) td.name a').first().click();
  await expect(page).toHaveURL(/\/process\/\d+-\d+\?/);
  await expect(page.getByRole('region', { name: 'threads over time' })).toBeVisible();
});

test('a report is no longer than asked for, and shows more', async ({ page, receiver }) => {
  await openPast(page, receiver, 'history', '&by=process&rows=2');
  const table = spanTable(page);
  await expect(table.locator('tbody tr:not(.rest)')).toHaveCount(2);
  await expect(table.getByRole('row', { name: /^\([\d,]+ others\)/ })).toBeVisible();
  await page.getByRole('button', { name: 'Show more' }).click();
  await expect.poll(() => table.locator('tbody tr:not(.rest)').count()).toBeGreaterThan(2);
  const order = table.getByRole('button', { name: 'ready' });
  await Promise.all([page.waitForResponse(/\/report\?.*sort=ready/), order.click()]);
  await expect(order).toHaveAttribute('aria-pressed', 'true');
});

test('the chart stacks who ran, or by mode; a group has one colour in chart and table', async ({ page, receiver }) => {
  await openPast(page, receiver, 'history');
  const legend = timeLine(page).locator('.legend');
  await expect(legend).toContainText('others');
  // The group that used most: which one, depends on the machine.
  const entry = legend.locator('.entry').first();
  const name = await entry.locator('.name').innerText();
  const colour = await entry.locator('.swatch').evaluate((one) => getComputedStyle(one).backgroundColor);
  const row = spanTable(page)
    .getByRole('row')
    .filter({ has: page.getByRole('link', { name, exact: true }) });
  await expect(row.locator('.swatch')).toHaveCSS('background-color', colour);
  await page.getByRole('button', { name: 'Mode', exact: true }).click();
  await expect(page).toHaveURL(/chart=mode/);
  await expect(legend).toContainText('system');
  await expect(legend).not.toContainText('others');
});

test('keys step, a hole says why', async ({ page, receiver }) => {
  await openPast(page, receiver, 'history', '&tab=instant');
  await expect(rows(page).first()).toBeVisible();
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
  await page.goto(`${receiver.url}/host/${await receiver.local()}/history?tab=instant`);
  await expect(rows(page).first()).toBeVisible();
  await expect(page.locator('[data-state=gap]')).toHaveCount(0);
});

test('a span without data says where there is some', async ({ page, receiver }) => {
  await receiver.hasRecorded(2);
  await page.goto(`${receiver.url}/host/${await receiver.local()}/history?since=1000&until=2000000`);
  await expect(page.locator('[data-state=gap]')).toContainText('No data in this span');
  await findsNothing(page);
  await page.getByRole('button', { name: 'show all data' }).click();
  await expect(spanTable(page).getByRole('row').nth(1)).toBeVisible();
});

test('the numbers of a comparison are in sight at 360 px', async ({ page, receiver }) => {
  await resize(page, 360, 740);
  await openPast(page, receiver, 'history', '&cmp=before&by=process');
  const change = spanTable(page).locator('td.change').first();
  await expect(change).toBeVisible();
  const box = await boxOf(change);
  expect(box.x + box.width).toBeLessThanOrEqual(352);
  await findsNothing(page);
});

for (const width of [360, 390])
  test(`on a phone of ${width} px the rows of a span begin above 450 px, and the rest is behind a button`, async ({
    page,
    receiver,
  }) => {
    await resize(page, width, 844);
    await receiver.hasRecorded(4);
    await page.goto(`${receiver.url}/host/${await receiver.local()}/history`);
    const table = page.getByRole('tabpanel').getByRole('table');
    await expect(timeLine(page).locator('.legend')).toContainText('others');
    await expect(table.locator('tbody tr').nth(5)).toBeVisible();
    expect((await boxOf(table)).y).toBeLessThan(450);
    const more = timeLine(page).getByRole('button', { name: 'More' });
    await expect(timeLine(page).getByRole('button', { name: 'Mode' })).toBeHidden();
    await more.focus();
    await page.keyboard.press('Enter');
    await timeLine(page).getByRole('button', { name: 'Mode' }).click();
    await expect(timeLine(page).locator('.legend')).toContainText('system');
    await findsNothing(page);
    // Lengths are chosen in a list.
    await timeLine(page).getByLabel('length of the time line').selectOption('1 h');
    await expect(page).toHaveURL((url) => {
      const { since, until } = Object.fromEntries(url.searchParams);
      return Number(until) - Number(since) === 3_600_000;
    });
  });

test('a host that is not known is named so, in Live and History alike', async ({ page, receiver }) => {
  for (const view of ['', '/history']) {
    await page.goto(`${receiver.url}/host/not-there${view}`);
    await expect(page.locator('main')).toContainText('No such host');
  }
});

test('a host whose first interval comes later than the page is shown once it has come', async ({ page, receiver }) => {
  await receiver.hasRecorded(2);
  let isFirst = true;
  await page.route(/\/charts\?.*views=cpu/, async (route) => {
    if (!isFirst) return route.continue();
    isFirst = false;
    const answer = await (await route.fetch()).text();
    return route.fulfill({ contentType: 'application/json', body: answer.replace(/"kept":\{[^}]*\}/, '"kept":null') });
  });
  await page.goto(`${receiver.url}/host/${await receiver.local()}/history`);
  await expect(page.getByText('No stored data for this host')).toBeVisible();
  await expect(timeLine(page).getByRole('slider')).toBeVisible();
  await expect(page).toHaveURL(/since=/);
});

test('a view that does not come says so', async ({ page, receiver }) => {
  await page.route('**/assets/History-*.js', (route) => route.abort());
  await page.goto(`${receiver.url}/host/${await receiver.local()}/history`);
  await expect(page.locator('[data-state=lost]')).toContainText('This view failed to load');
  await findsNothing(page);
});

test('a span is compared with another one, and with presets', async ({ page, receiver }) => {
  await receiver.hasRecorded(20);
  // All rows: those that changed most come first.
  await openPast(page, receiver, 'history', '&rows=1000');
  const compare = page.getByRole('combobox', { name: 'Compare with' });
  await drag(page, 0.7, 0.8);
  await compare.selectOption('this span, then select another');
  const compared = page.waitForResponse(/\/report\?.*compare=\d+\.\.\d+/);
  await drag(page, 0.82, 0.98);
  await expect(page).toHaveURL(/cmp=\d+-\d+/);
  const row = spanTable(page).getByRole('row', { name: HOSTILE });
  await expect(row.locator('td.change')).toHaveText(/^[+-]?\d+\.\d\d$/);
  expect((await compared).ok()).toBe(true);
  // A row that moves under the pointer takes no click.
  await expect(page.getByRole('tabpanel').locator('[aria-busy=true]')).toHaveCount(0);
  // Its name leads to its processes, and what is compared stays.
  await row.getByRole('link').click();
  await expect(page).toHaveURL(/cmp=\d+-\d+.*in=program/);
  await expect(spanTable(page).locator('td.change').first()).toBeVisible();
  for (const [preset, ms] of [
    ['yesterday', 86_400_000],
    ['last week', 604_800_000],
  ] as const) {
    // What was compared before may still be asked for.
    const asked = page.waitForRequest((request) => {
      const { pathname, searchParams: query } = new URL(request.url());
      const [from] = (query.get('compare') ?? '').split('..');
      return pathname.endsWith('/report') && Number(query.get('since')) - Number(from) === ms * 1e6;
    });
    await compare.selectOption(preset);
    await asked;
  }
  await expect(page.getByText('there is no data for that time')).toBeVisible();
});

test('the rows of a span as a file, and the command line of it', async ({ page, receiver }) => {
  await openPast(page, receiver, 'history', '&by=process&cmp=before&q=onerror');
  await page.getByRole('tabpanel').getByRole('button', { name: 'Data', exact: true }).click();
  const dialog = page.getByRole('dialog', { name: 'All rows of this span as a file' });
  await expect(dialog.locator('code').first()).toContainText(
    /^cpumon report --store=\S+ --host=\S+ --since=\S+Z --until=\S+Z --by=process --sort=change --compare=\S+Z\.\.\S+Z --filter=onerror /,
  );
  const [csv] = await Promise.all([
    page.waitForEvent('download'),
    dialog.getByRole('link', { name: 'Download' }).click(),
  ]);
  expect(csv.suggestedFilename()).toBe('cpumon-report.csv');
  const text = await readFile(await csv.path(), 'utf8');
  expect(text).toMatch(/^"?host"?,"?kind"?,"?name"?,/);
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
  await openPast(page, receiver, 'history', `&at=${(await receiver.hasRecorded(6)) - 2_000}000000`);
  await expect(rows(page).first()).toBeVisible();
  // What is on screen: who used the CPU first, then the modes.
  await of('time line', /^cpumon report --store=\S+ --host=\S+ --since=\S+ --until=\S+ --by=program /);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Mode', exact: true }).click();
  await of('time line', /^cpumon export ledger --store=\S+ --host=\S+ --since=\S+ --until=\S+ --format=csv$/);
  await page.keyboard.press('Escape');
  // The grid first as it is on screen: what is found, in the columns that are chosen.
  await page.getByRole('searchbox', { name: 'search' }).fill('onerror');
  // Another worker has a process of the same name.
  await expect(rows(page).filter({ hasNotText: 'onerror' })).toHaveCount(0);
  const found = await rows(page).count();
  expect(found).toBeGreaterThan(0);
  await page.getByRole('region', { name: 'tasks' }).getByRole('button', { name: 'Data', exact: true }).click();
  const [shown] = await Promise.all([
    page.waitForEvent('download'),
    dialog.getByRole('link', { name: 'Download' }).click(),
  ]);
  const seen = (await readFile(await shown.path(), 'utf8')).trimEnd().split('\r\n');
  expect(seen[0]).toMatch(/^"depth","is_group","name","pid","cpu",/);
  expect(seen).toHaveLength(1 + found);
  expect(seen[1]).toContain('"<img src=x onerror=""document.title=`owned`"">"');
  await dialog.getByRole('button', { name: 'CSV' }).click();
  await expect(dialog.locator('code').first()).toContainText(/^cpumon export processes /);
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
  // By mode the legend is as high before a row is selected as after it: the rows stay below the pointer.
  await openPast(page, receiver, 'history', '&q=onerror&tab=instant&chart=mode');
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

test('a process of a span is watched live while it is alive', async ({ page, receiver }) => {
  const process = await receiver.someProcess();
  await openPast(page, receiver, `process/${process}`);
  await page.getByRole('region', { name: 'process' }).getByRole('link', { name: 'Watch live' }).click();
  await expect(page).toHaveURL(/\/host\/[^/]+\?/);
  await expect(page.getByRole('treegrid').getByRole('row', { selected: true })).toContainText(String(receiver.pid));
});

/** To the left until a cell has a value: intervals may be longer than a column is wide. */
async function walkToData(page: Page): Promise<void> {
  const readout = page.getByRole('region', { name: 'landscape' }).getByRole('status');
  await page.getByRole('application').focus();
  await expect(async () => {
    await page.keyboard.press('ArrowLeft');
    expect(await readout.textContent()).toMatch(/%CPU, highest interval \d/);
  }).toPass({ intervals: [50] });
}

test('a moment of a process is at one place in all its charts', async ({ page, receiver }) => {
  await receiver.hasRecorded(3);
  await page.goto(`${receiver.url}/host/${await receiver.local()}/process/${await receiver.someProcess()}`);
  const cells = page.getByRole('application', { name: /^threads by time/ });
  await expect(cells).toBeVisible();
  const lines = page.getByRole('region', { name: 'states over time' }).locator('.u-over');
  const [above, below] = [await boxOf(lines), await boxOf(cells)];
  expect(Math.abs(above.x - below.x)).toBeLessThanOrEqual(1);
  expect(Math.abs(above.width - below.width)).toBeLessThanOrEqual(2);
});

test('a process that was never stored is named in words, without addresses for programs', async ({
  page,
  receiver,
}) => {
  await receiver.hasRecorded(1);
  await page.goto(`${receiver.url}/host/${await receiver.local()}/process/99999-1`);
  await expect(page.getByText('No data for this process in this span')).toBeVisible();
  await expect(page.getByRole('main')).not.toContainText('/api/');
  await page.goto(`${receiver.url}/host/no-such-host`);
  await expect(page.getByRole('main')).toContainText(/No such host/i);
  await expect(page.getByRole('main')).not.toContainText('/api/');
});

test('the landscape: bars, and the same data as a heatmap', async ({ page, receiver }) => {
  await openPast(page, receiver, 'landscape');
  await expect(page.getByRole('region', { name: 'landscape' }).locator('canvas').first()).toBeVisible();
  await page.getByRole('button', { name: 'Heatmap' }).click();
  await walkToData(page);
  // A mean hides short spikes: the highest of each cell does not.
  const button = page.getByRole('group', { name: 'cells' }).getByRole('button', { name: 'Highest' });
  await Promise.all([page.waitForResponse(/\/charts\?.*cells=highest/), button.click()]);
  await expect(page).toHaveURL(/cells=highest/);
  await walkToData(page);
  await expect(async () => {
    await page.keyboard.press('Enter');
    await expect(page).toHaveURL(/\/history/, { timeout: 2_000 });
  }).toPass();
});

test('cells of a heatmap end where the next ones begin, on whole pixels', async ({ page, receiver }) => {
  await page.addInitScript(() => {
    const filled: [number, number][] = [];
    const { fillRect } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.fillRect = function (x, y, width, height) {
      if (height === 17 && this.canvas.parentElement?.matches('.board')) filled.push([x, width]);
      fillRect.call(this, x, y, width, height);
    };
    Object.assign(globalThis, { filled });
  });
  await openPast(page, receiver, 'landscape', '&as=heatmap');
  const filled = await page.waitForFunction(() => {
    const { filled } = globalThis as unknown as { filled: [number, number][] };
    return filled.length > 20 && filled;
  });
  const isWhole = ([x, width]: [number, number]): boolean =>
    Number.isInteger(x) && Number.isInteger(width) && width > 0;
  expect(((await filled.jsonValue()) || []).filter((cell) => !isWhole(cell))).toEqual([]);
});

test('nothing is seen above the times of a heatmap that is scrolled', async ({ page, receiver }) => {
  await resize(page, 1440, 420);
  await openPast(page, receiver, 'landscape', '&as=heatmap&rows=process');
  await expect(page.locator('.names li').nth(20)).toBeAttached();
  const view = page.locator('.view');
  await view.evaluate((one) => one.scrollTo(0, one.scrollHeight / 2));
  const tops = (): Promise<number[]> =>
    Promise.all([page.locator('.titles'), view].map(async (one) => (await boxOf(one)).y));
  await expect
    .poll(async () =>
      page
        .locator('.names li')
        .first()
        .evaluate((one) => one.getBoundingClientRect().y),
    )
    .toBeLessThan(0);
  const [titles, top] = await tops();
  expect(titles).toBe(top);
});

test('the tools of the landscape are one line, whatever the days of its span', async ({ page, receiver }) => {
  await receiver.hasRecorded(2);
  const host = `${receiver.url}/host/${await receiver.local()}`;
  for (const query of [
    'as=heatmap',
    'as=3d',
    'as=heatmap&since=now-7d&until=now-2d',
    'since=1795659300000&until=1795746000000',
  ]) {
    await page.goto(`${host}/landscape?${query}`);
    const tools = page.getByRole('region', { name: 'landscape' }).locator('.top');
    await expect(tools.getByRole('button', { name: 'all data' })).toBeVisible();
    expect((await boxOf(tools)).height, query).toBeLessThan(45);
    expect(await tools.evaluate((one) => one.scrollWidth - one.clientWidth), query).toBe(0);
  }
});

test('a click on a 3D bar opens its moment', async ({ page, receiver }) => {
  await small(page);
  await openPast(page, receiver, 'landscape', '&rows=process');
  const scene = page.locator('.scene');
  await expect(scene.locator('canvas').first()).toBeVisible();
  // The line above the bars is shorter for a bar than without one: they would move below the pointer.
  await styled(page, '.head { height: 80px; overflow: hidden }');
  const box = await boxOf(scene);
  const readout = page.getByRole('region', { name: 'landscape' }).getByRole('status').locator('b');
  // Where a bar is depends on what ran: the pointer searches the stage for one.
  const found = await (async () => {
    for (let y = 0.75; y > 0.25; y -= 0.04)
      for (let x = 0.2; x < 0.85; x += 0.05) {
        const at = { x: box.x + box.width * x, y: box.y + box.height * y };
        await page.mouse.move(at.x - 1, at.y);
        await page.mouse.move(at.x, at.y);
        if ((await readout.count()) > 0) return { at, name: await readout.innerText() };
      }
    throw new Error('no bar under the pointer');
  })();
  // Beside the bars and outside of the stage nothing is pointed at, and the same bar is found once more.
  for (const beside of [
    { x: box.x + 4, y: box.y + 4 },
    { x: box.x + 4, y: 4 },
  ]) {
    await page.mouse.move(beside.x, beside.y);
    await expect(readout).toHaveCount(0);
    await page.mouse.move(found.at.x, found.at.y);
    await expect(readout).toHaveText(found.name);
  }
  // A turn is no click.
  await page.mouse.down();
  await page.mouse.move(found.at.x + 40, found.at.y, { steps: 3 });
  await page.mouse.up();
  // A click that waits for its button scrolls the window.
  await expect(page).toHaveURL(/\/landscape\?.*camera=/);
  await page.getByRole('button', { name: 'Reset view' }).click();
  await expect(page).not.toHaveURL(/camera=/);
  // The bar is where it was once the picture is drawn again: what the pointer reads before is of the turned one.
  await expect(async () => {
    const now = await boxOf(scene);
    await page.mouse.move(now.x + 4, now.y + 4);
    await page.mouse.move(now.x + found.at.x - box.x, now.y + found.at.y - box.y);
    expect(await readout.allInnerTexts()).toEqual([found.name]);
  }).toPass({ intervals: [100] });
  await page.mouse.down();
  await page.mouse.up();
  await expect(page).toHaveURL(/\/history\?.*at=\d+/);
  await expect(rows(page).first()).toBeVisible();
});

test('the 3D code is loaded only for the landscape', async ({ page, receiver }) => {
  const asked: string[] = [];
  page.on('request', (request) => asked.push(request.url()));
  await openPast(page, receiver, 'history', '&tab=instant');
  await expect(rows(page).first()).toBeVisible();
  expect(asked.filter((url) => url.includes('landscape3d'))).toEqual([]);
  await page.getByRole('link', { name: 'Landscape' }).click();
  await expect.poll(() => asked.filter((url) => url.includes('landscape3d')).length).toBeGreaterThan(0);
});

test('a narrow window begins with the heatmap, and shows bars when asked', async ({ page, receiver }) => {
  const asked: string[] = [];
  page.on('request', (request) => asked.push(request.url()));
  await resize(page, 360, 740);
  await openPast(page, receiver, 'landscape');
  await expect(page.getByRole('application')).toBeVisible();
  expect(asked.filter((url) => url.includes('landscape3d'))).toEqual([]);
  await page.getByRole('button', { name: '3D' }).click();
  await expect(page.locator('.scene canvas').first()).toBeVisible();
  await expect(page).toHaveURL(/as=3d/);
});

test('bars are turned and come closer from the keyboard', async ({ page, receiver }) => {
  await small(page);
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
  await small(page);
  await openPast(page, receiver, 'landscape');
  const scene = page.locator('.scene');
  await expect(scene.locator('canvas').first()).toBeVisible();
  const home = page.getByRole('button', { name: 'Reset view' });
  await expect(home).toBeDisabled();
  await page.getByRole('button', { name: 'Turn to the left' }).click();
  await expect(page).toHaveURL(/camera=\d+%2C38%2C\d+/);
  // A drag reports its end.
  const box = await boxOf(scene);
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2 + 90, box.y + box.height / 2 + 40, { steps: 5 });
  await page.mouse.up();
  await expect(page).not.toHaveURL(/camera=\d+%2C38%2C\d+/);
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
  await home.focus();
  await page.keyboard.press('Enter');
  await expect(page).not.toHaveURL(/camera=/);
  await expect(home).toBeDisabled();
  await expect(home, 'the keyboard keeps its place').toBeFocused();
  await page.waitForTimeout(700);
  expect(page.url(), 'at first is no place of its own').not.toContain('camera=');
});

test('the span of an export is one line, on a phone two', async ({ page, receiver }) => {
  await page.goto(`${receiver.url}/host/${await receiver.local()}/export`);
  const parts = page.locator('.field .bar > :is(select, .segments, button)');
  const lines = async (): Promise<number> =>
    new Set(await parts.evaluateAll((all) => all.map((one) => Math.round(one.getBoundingClientRect().bottom)))).size;
  await expect(parts).toHaveCount(3);
  await expect.poll(lines).toBe(1);
  await resize(page, 390, 844);
  await expect.poll(lines).toBe(2);
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
  await page.getByRole('button', { name: 'Accounts and interrupts' }).click();
  // A receiver whose store is seconds behind draws what it has.
  await expect(async () => {
    await page.keyboard.press('Escape');
    await expect(dialog).toHaveCount(0);
    await page.getByRole('group', { name: 'save the CPU bars' }).getByRole('button', { name: 'SVG' }).click();
    await expect(dialog.locator('code')).toContainText('cpumon export chart cpus --store=');
    const [bars] = await Promise.all([
      page.waitForEvent('download'),
      dialog.getByRole('link', { name: 'Download cpumon-cpus.svg' }).click(),
    ]);
    const each = await readFile(await bars.path(), 'utf8');
    expect(each).toMatch(/>CPU 0<\/text>.*>One interval of \d+\.\d{3} s\.<\/text>/s);
  }).toPass();
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
