// How the page is used: keys wherever the focus is, links that anybody may have written, times of another season, names and numbers that
// are too long, the system's own colours, paper.
import type { Page } from '@playwright/test';
import { findsNothing } from './axe';
import { boxOf, resize } from './layout';
import { expect, SIMULATED, test, type Receiver } from './receiver';

const grid = (page: Page) => page.getByRole('treegrid');

async function openLive(page: Page, receiver: Receiver, query = ''): Promise<void> {
  await page.goto(`${receiver.url}/host/${await receiver.local()}${query}`);
  await expect(grid(page).locator('[aria-level]').first()).toBeVisible();
}

test('the skip link leads to the content', async ({ page, receiver }) => {
  await page.goto(receiver.url);
  await page.keyboard.press('Tab');
  await expect(page.getByRole('link', { name: 'Skip to the content' })).toBeFocused();
  const address = page.url();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('main')).toBeFocused();
  expect(page.url()).toBe(address);
});

test('colours are chosen, whatever the system has, and remembered', async ({ page, receiver }) => {
  await page.emulateMedia({ colorScheme: 'light' });
  await page.goto(receiver.url);
  const paper = (): Promise<string> => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await paper();
  await page.keyboard.press('?');
  const choice = page.getByRole('group', { name: 'colours' });
  await choice.getByRole('button', { name: 'dark' }).click();
  await expect.poll(paper).not.toBe(light);
  await findsNothing(page);
  await page.reload();
  await expect.poll(paper).not.toBe(light);
  await page.keyboard.press('?');
  await expect(choice.getByRole('button', { name: 'dark' })).toHaveAttribute('aria-pressed', 'true');
  await choice.getByRole('button', { name: 'system' }).click();
  await expect.poll(paper).toBe(light);
});

test('keys work where a button was pressed last, and not behind a dialog', async ({ page, receiver }) => {
  await receiver.hasRecorded(3);
  await openLive(page, receiver);
  await page.getByRole('button', { name: '%host' }).click();
  await page.keyboard.press('[');
  await expect(page).toHaveURL(/at=\d+/);
  await grid(page).getByRole('columnheader', { name: 'PID' }).getByRole('button').click();
  await page.keyboard.press('ArrowDown');
  await expect(grid(page).locator('[aria-selected=true]')).toHaveCount(1);
  await page.getByRole('button', { name: 'Columns' }).click();
  await page.getByRole('checkbox', { name: 'user' }).focus();
  await page.keyboard.press('Escape');
  await expect(page.getByRole('checkbox', { name: 'user' })).toHaveCount(0);
  await expect(page.getByRole('button', { name: 'Columns' })).toBeFocused();
  await page.keyboard.press('?');
  await expect(page.getByRole('dialog')).toBeVisible();
  const address = page.url();
  await page.keyboard.press('h');
  expect(page.url()).toBe(address);
});

test('rows are sorted with the keyboard', async ({ page, receiver }) => {
  await openLive(page, receiver);
  const sorted = (name: string) => grid(page).getByRole('columnheader', { name, exact: true });
  await page.keyboard.press('<');
  await expect(sorted('PID')).toHaveAttribute('aria-sort', 'ascending');
  await page.keyboard.press('R');
  await expect(sorted('PID')).toHaveAttribute('aria-sort', 'descending');
  await page.keyboard.press('>');
  await expect(sorted('%CPU')).toHaveAttribute('aria-sort', 'descending');
});

test('Esc on a process that a link opened stays in the page', async ({ page, receiver }) => {
  await receiver.hasRecorded(3);
  await page.goto(`${receiver.url}/host/${await receiver.local()}/process/${await receiver.someProcess()}`);
  await expect(page.getByRole('region', { name: 'sums' })).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(grid(page)).toBeVisible();
});

test('a click on a heatmap opens what is under the mouse, whatever came since it moved', async ({ page, receiver }) => {
  const until = await receiver.hasRecorded(6);
  await page.goto(
    `${receiver.url}/host/${await receiver.local()}/landscape?as=heatmap&since=${until - 8_000}&until=${until}`,
  );
  const box = await boxOf(page.getByRole('application'));
  await page.mouse.move(box.x + box.width * 0.25, box.y + 5);
  await expect(page.locator('.cursor')).toHaveAttribute('style', /left: 2[45]/);
  const axis = page.locator('.axis');
  const before = await axis.innerText();
  await page.keyboard.press('-');
  await expect.poll(() => axis.innerText()).not.toBe(before);
  const [since = 0, later = 0] = ['since', 'until'].map((name) => Number(new URL(page.url()).searchParams.get(name)));
  await page.mouse.down();
  await page.mouse.up();
  await expect(page).toHaveURL(/\/history\?.*at=/);
  const at = Number(new URL(page.url()).searchParams.get('at')) / 1e6;
  expect(Math.abs(at - (since + (later - since) * 0.25))).toBeLessThan((later - since) / 100);
});

test('the past has its span in the link from the beginning', async ({ page, receiver }) => {
  await receiver.hasRecorded(3);
  for (const view of ['history', 'landscape', 'export']) {
    await page.goto(`${receiver.url}/host/${await receiver.local()}/${view}`);
    await expect(page).toHaveURL(/since=\d+&until=\d+/);
  }
  // What is stored, where that is less than an hour, and all of it at a click.
  const begin = async (): Promise<number> => {
    const host = `${receiver.url}/api/v1/hosts/${await receiver.local()}`;
    const { kept } = (await (await fetch(`${host}/series?points=10`)).json()) as { kept: { first_ns: string } };
    return Number(kept.first_ns) / 1e6;
  };
  for (const view of ['landscape?as=heatmap', 'export']) {
    await page.goto(`${receiver.url}/host/${await receiver.local()}/${view}`);
    await expect(page).toHaveURL(/since=\d+&until=\d+/);
    const since = Number(new URL(page.url()).searchParams.get('since'));
    expect(Math.abs(since - (await begin())), view).toBeLessThan(2_000);
    await page.getByRole('button', { name: '10 min', exact: true }).click();
    await page.getByRole('button', { name: 'all data' }).click();
    const all = Number(new URL(page.url()).searchParams.get('since'));
    expect(Math.abs(all - (await begin())), view).toBeLessThan(2_000);
  }
  // Up to now, and on with the clock: the link moves along.
  await page.goto(`${receiver.url}/host/${await receiver.local()}/history?since=1000&until=61000`);
  const now = page.getByRole('button', { name: 'now', exact: true });
  await now.click();
  await expect(page).toHaveURL(/since=now-1m&until=now/);
  await expect(now).toHaveAttribute('aria-pressed', 'true');
  const charts = /\/charts\?.*views=cpu/;
  const [first, next] = [await page.waitForRequest(charts), await page.waitForRequest(charts)].map(
    (request) => Number(new URL(request.url()).searchParams.get('until')) / 1e6,
  );
  expect(next! - first!).toBeGreaterThan(1_000);
  await now.click();
  await expect(page).toHaveURL(/since=\d+&until=\d+/);
  // Typed, and what is no moment is reported.
  await page.keyboard.press('b');
  const dialog = page.getByRole('dialog', { name: 'Show the time' });
  const relative = dialog.getByLabel('or up to now, since');
  await relative.fill('an hour');
  await relative.press('Enter');
  await expect(dialog.getByRole('alert').filter({ hasText: 'now-15m' })).toBeVisible();
  await findsNothing(page);
  await relative.fill('now-15m');
  await relative.press('Enter');
  await expect(page).toHaveURL(/since=now-15m&until=now/);
  for (const view of ['history', 'landscape?as=heatmap', 'export', `process/${await receiver.someProcess()}`]) {
    await page.goto(
      `${receiver.url}/host/${await receiver.local()}/${view}${view.includes('?') ? '&' : '?'}since=garbage`,
    );
    await expect(page.getByRole('alert').filter({ hasText: 'since=garbage is no moment' })).toBeVisible();
  }
});

test('a span that moves with the clock waits for answers that take longer than its step', async ({
  page,
  receiver,
}) => {
  await receiver.hasRecorded(2);
  // A span of ten minutes is asked for each 5 s.
  await page.route(/\/report\?/, async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 7_000));
    await route.continue().catch(() => undefined);
  });
  await page.goto(`${receiver.url}/host/${await receiver.local()}/history?since=now-10min&until=now`);
  await expect(page.getByRole('tabpanel').getByRole('table').getByRole('row').nth(1)).toBeVisible();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
});

test('a young store and a short life fill the time line', async ({ page, receiver }) => {
  await receiver.hasRecorded(8);
  const host = `${receiver.url}/host/${await receiver.local()}`;
  const asked: string[] = [];
  page.on('request', (request) => {
    if (/\/(charts\?.*views=cpu|processes\/[^/?]+(\?|$))/.test(request.url())) asked.push(request.url());
  });
  for (const view of ['history', `process/${await receiver.someProcess()}`]) {
    asked.length = 0;
    await page.goto(`${host}/${view}`);
    await expect(page).toHaveURL(/since=\d+&until=\d+/);
    const span = ['since', 'until'].map((name) => Number(new URL(page.url()).searchParams.get(name)));
    expect(span[1]! - span[0]!).toBeLessThan(1_800_000);
    await expect(page.locator('.u-over').first()).toBeVisible();
    await expect(page.getByRole('button', { name: 'earlier' })).toBeVisible();
    expect(asked.filter((url) => !url.includes('/threads'))).toHaveLength(1);
  }
});

test('a span is typed in the zone that is shown', async ({ page, receiver }) => {
  const host = `${receiver.url}/host/${await receiver.local()}`;
  const [since, until] = [Date.parse('2026-07-01T10:00:00.250Z'), Date.parse('2026-07-01T11:00:00.750Z')];
  const dialog = page.getByRole('dialog', { name: 'Show the time' });
  const [from, to] = [dialog.getByLabel('From'), dialog.getByLabel('To', { exact: true })];
  const span = (): string =>
    new URL(page.url()).searchParams.get('since') + '-' + new URL(page.url()).searchParams.get('until');
  for (const view of ['history', 'landscape?as=heatmap', 'export', `process/${await receiver.someProcess()}`]) {
    await page.goto(`${host}/${view}${view.includes('?') ? '&' : '?'}since=${since}&until=${until}`);
    const button = page.getByRole('button', { name: '2026-07-01 12:00:00 – 13:00:00 · 60 min 01 s' });
    await expect(button).toBeVisible();
    await page.keyboard.press('b');
    await expect(from).toBeFocused();
    await expect(dialog).toContainText('In local time, Europe/Berlin.');
    await expect(from).toHaveValue('2026-07-01T12:00');
    await from.fill('2026-06-30T03:12:05');
    await page.keyboard.press('Escape');
    await expect(dialog).toHaveCount(0);
    expect(span()).toBe(`${since}-${until}`);
    await button.click();
    await from.fill('2026-06-30T03:12:05');
    await from.press('Enter');
    await expect(dialog).toHaveCount(0);
    await expect(button).toHaveCount(0);
    // What was not changed keeps its milliseconds.
    await expect.poll(span).toBe(`${Date.parse('2026-06-30T01:12:05Z')}-${until}`);
    await page.goBack();
    await expect(button).toBeVisible();
  }
  await page.keyboard.press('u');
  await page.getByRole('button', { name: '2026-07-01 10:00:00 – 11:00:00 · 60 min 01 s' }).click();
  await expect(dialog).toContainText('In UTC.');
  await from.fill('2026-07-01T12:00:00');
  await dialog.getByRole('button', { name: 'Apply' }).click();
  await expect(to).toBeFocused();
  await expect(to).toHaveAccessibleDescription('To must be later than From.');
  await expect(from).not.toHaveAttribute('aria-invalid', 'true');
  await from.fill('');
  await from.press('Enter');
  await expect(from).toBeFocused();
  await expect(dialog.getByRole('alert')).toHaveText(/^From is incomplete/);
  await findsNothing(page);
  await resize(page, 360, 640);
  await findsNothing(page);
  for (const box of [await boxOf(to), await boxOf(dialog.getByRole('button', { name: 'Apply' }))])
    expect(box.x + box.width).toBeLessThanOrEqual(352);
  await dialog.getByRole('button', { name: 'Close' }).click();
  await expect(page.getByRole('button', { name: /^2026-07-01 10:00:00/ })).toBeFocused();
});

test('the keys of a span are the same in every view of the past', async ({ page, receiver }) => {
  await receiver.hasRecorded(3);
  const host = `${receiver.url}/host/${await receiver.local()}`;
  const [since, until] = [Date.now() - 60_000, Date.now() + 60_000];
  const half = (until - since) / 2;
  const span = (): number[] => ['since', 'until'].map((name) => Number(new URL(page.url()).searchParams.get(name)));
  for (const view of ['history', 'landscape?as=heatmap', 'export', `process/${await receiver.someProcess()}`]) {
    const more = view === 'history' ? '&tab=instant' : '';
    await page.goto(`${host}/${view}${view.includes('?') ? '&' : '?'}since=${since}&until=${until}${more}`);
    await expect(page.getByRole('button', { name: 'earlier' })).toBeVisible();
    if (view === 'history') await expect(grid(page)).toBeVisible();
    for (const [key, by] of [
      [',', -half],
      ['.', half],
      ...(view === 'history'
        ? []
        : ([
            ['[', -half],
            [']', half],
          ] as const)),
    ] as const) {
      const [from = 0, to = 0] = span();
      await page.keyboard.press(key);
      await expect.poll(span).toEqual([from + by, to + by]);
    }
    await page.keyboard.press('-');
    await expect.poll(span).toEqual([since - half, until + half]);
    await page.keyboard.press('+');
    // Around a moment that is marked, to the millisecond.
    await expect.poll(() => Math.abs(span()[1]! - span()[0]! - (until - since))).toBeLessThan(5);
    const [from = 0, to = 0] = span();
    if (view !== 'history') continue;
    // There [ and ] step from interval to interval, and the span stays.
    const at = new URL(page.url()).searchParams.get('at');
    await page.keyboard.press('[');
    await expect.poll(() => new URL(page.url()).searchParams.get('at')).not.toBe(at);
    expect(span()).toEqual([from, to]);
  }
  await page.goto(`${host}/export?since=${since}&until=${until}`);
  await page.getByRole('textbox', { name: 'Only process' }).press('.');
  expect(span()).toEqual([since, until]);
});

test('the live view goes to a moment that is typed', async ({ page, receiver }) => {
  await receiver.hasRecorded(6);
  await openLive(page, receiver);
  await page.keyboard.press('b');
  const moment = page.getByRole('dialog', { name: 'Go to a moment' }).getByLabel('Moment');
  await expect(moment).toBeFocused();
  // Another second than that on screen: what is not changed keeps its milliseconds.
  const shown = await moment.inputValue();
  const wanted = await page.evaluate((local) => new Date(local).getTime() - 3000, shown);
  await moment.fill(
    await page.evaluate(
      (ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 19),
      wanted,
    ),
  );
  await moment.press('Enter');
  await expect(page).toHaveURL(new RegExp(`at=${wanted}000000$`));
  await expect(page.getByText('Paused', { exact: true })).toBeVisible();
  await page.goBack();
  await expect(page.getByText('Paused', { exact: true })).toHaveCount(0);
});

test('a link with impossible numbers shows a view', async ({ page, receiver }) => {
  const host = `${receiver.url}/host/${await receiver.local()}`;
  // What a view reads of its address, and for each something that it does not.
  for (const address of [
    '?at=abc',
    '?at=1.5',
    '?since=9e99&until=9e100',
    '/history?at=abc&since=9e99&until=9e100',
    '/history?cmp=1&a=9e99-9e100&b=1-2',
    '/history?part=9e99-1&cmp=99999999999999-1&rows=-4&in=nothing',
    '/landscape?since=1e15&until=-9e15',
    '/export?since=9e99&until=9e100&at=1.5',
    '/process/1-1?since=1e15&until=-9e15',
    '/process/1-1?part=9e99-1&at=abc',
  ]) {
    await page.goto(`${host}${address}`);
    await expect(page.locator('main :is(.panel, .view)').first(), address).toBeVisible();
    await expect(page.getByText('Fetching this view.'), address).toHaveCount(0);
  }
  await page.goto(`${host}/history`);
  await expect(page.getByRole('region', { name: 'time line' })).toBeVisible();
  for (let turn = 0; turn < 40; turn += 1) await page.keyboard.press('-');
  const { searchParams } = new URL(page.url());
  expect(Number(searchParams.get('since'))).toBe(0);
  expect(Number(searchParams.get('until'))).toBe(9_223_372_036_854);
});

test('the offset is that of the times on screen', async ({ page, receiver }) => {
  const open = async (since: string, until: string): Promise<void> => {
    await page.goto(
      `${receiver.url}/host/${await receiver.local()}/history?since=${Date.parse(since)}&until=${Date.parse(until)}`,
    );
  };
  await open('2026-07-01T10:00:00Z', '2026-07-01T11:00:00Z');
  await expect(page.getByRole('button', { name: 'UTC+02:00', exact: true })).toBeVisible();
  await open('2026-10-25T00:30:00Z', '2026-10-25T01:30:00Z');
  await expect(page.getByRole('button', { name: 'UTC+02:00 → UTC+01:00' })).toBeVisible();
  await page.keyboard.press('u');
  await expect(page.getByRole('button', { name: 'UTC', exact: true })).toBeVisible();
});

test('a long name hides no warning, no name still has a link, and large numbers cover nothing', async ({
  page,
  receiver,
}) => {
  const asThey = async (change: (columns: Record<string, unknown>) => void): Promise<void> => {
    await page.unrouteAll();
    await page.route('**/fleet/live*', async (route) => {
      const fleet = (await (await fetch(`${receiver.url}/api/v1/fleet`)).json()) as {
        hosts: { columns: Record<string, unknown> };
        top: { columns: Record<string, unknown> };
      };
      change(fleet.hosts.columns);
      if (fleet.hosts.columns['hostname'] === ' ') fleet.top.columns['hostname'] = ' ';
      await route.fulfill({
        contentType: 'text/event-stream',
        body: `event: fleet\nid: 0-1\ndata: ${JSON.stringify(fleet)}\n\n`,
      });
    });
    await page.goto(receiver.url);
  };
  await asThey((columns) =>
    Object.assign(columns, {
      hostname: 'H'.repeat(300),
      health: 'late',
      top_name: 'worker',
      top_host_pct: 199_199_108,
    }),
  );
  const row = page.getByRole('row').nth(1);
  await expect(row.locator('.cell.health')).not.toBeEmpty();
  const [cell, mark] = [await boxOf(row.locator('.cell.name')), await boxOf(row.locator('.cell.health'))];
  expect(cell.x + cell.width).toBeLessThanOrEqual(mark.x + 0.5);
  await expect(row.locator('.cell.top')).toContainText(/\d M/);
  await asThey((columns) => Object.assign(columns, { hostname: ' ' }));
  await expect(
    page
      .getByRole('row')
      .nth(1)
      .getByRole('link', { name: /^[0-9a-f]{32}$/ }),
  ).toBeVisible();
  await expect(
    page.getByRole('region', { name: 'busiest processes', exact: true }).locator('.where').first(),
  ).toHaveText(/^[0-9a-f]{32}$/);
  await findsNothing(page);
});

test('of several hosts with one name each has a link, from every view', async ({ page, receiver }) => {
  await receiver.hasStored(...SIMULATED);
  const NAME = '<b>twin</b> & co';
  await page.goto(receiver.url);
  await expect(page.getByRole('row', { name: /sim-/ })).toHaveCount(3);
  const fleet = (await (await fetch(`${receiver.url}/api/v1/fleet`)).json()) as {
    hosts: { columns: { id: string[]; hostname: string[] } };
  };
  const { id: ids, hostname } = fleet.hosts.columns;
  for (const nth of [1, 2]) hostname[nth] = NAME;
  await page.route('**/api/v1/fleet?search=*', (route) => route.fulfill({ json: fleet }));
  const problem = {
    type: 'about:blank',
    status: 409,
    title: 'Conflict',
    detail: `Several hosts have this name: ${ids[1]}, ${ids[2]}.`,
    how: 'Use an id.',
  };
  await page.route(
    (url) =>
      url.pathname.startsWith(`/api/v1/hosts/${encodeURIComponent(NAME)}/`) ||
      (url.pathname.includes('/export/') && url.searchParams.get('host') === NAME),
    (route) => route.fulfill({ status: 409, contentType: 'application/problem+json', json: problem }),
  );
  for (const view of ['', '?at=1800000000000000000', '/history', '/landscape', '/export', '/process/1-1']) {
    await page.goto(`${receiver.url}/host/${encodeURIComponent(NAME)}${view}`);
    const message = page.getByRole('main').getByRole('alert');
    await expect(message).toContainText(`Several hosts have the name ${NAME}`);
    await expect(message.getByRole('link', { name: /^[0-9a-f]{32}$/ })).toHaveText([ids[1]!, ids[2]!]);
    await expect(page.getByText('No such host')).toHaveCount(0);
  }
  await resize(page, 360, 640);
  await page.goto(`${receiver.url}/host/${encodeURIComponent(NAME)}/history`);
  await expect(page.getByRole('link', { name: ids[2]! })).toBeVisible();
  await findsNothing(page);
  await page.getByRole('link', { name: ids[2]! }).click();
  await expect(page).toHaveURL(new RegExp(`/host/${ids[2]}/history\\?since=`));
  await expect(page.getByRole('slider').first()).toBeVisible();
});

test('what is colour is seen where the system has its own', async ({ page, receiver }) => {
  await page.emulateMedia({ forcedColors: 'active' });
  await openLive(page, receiver, '?accounts=1');
  const colour = (selector: string) =>
    page
      .locator(selector)
      .first()
      .evaluate((one) => getComputedStyle(one).backgroundColor);
  expect(await colour('.accounts .legend .swatch')).toBe('rgb(42, 120, 196)');
  expect(await colour('.strip span')).not.toBe('rgb(255, 255, 255)');
  expect(await colour('button[aria-pressed=true]')).not.toBe(await colour('button[aria-pressed=false]'));
});

test('on paper a view is as long as it is, dark on white', async ({ page, receiver }) => {
  await receiver.hasRecorded(3);
  await resize(page, 900, 400);
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.goto(`${receiver.url}/host/${await receiver.local()}/history?tab=instant`);
  await expect(grid(page)).toBeVisible();
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollHeight)).toBeGreaterThan(600);
  await expect(page.locator('h1').first()).toHaveCSS('color', 'rgb(23, 32, 43)');
});
