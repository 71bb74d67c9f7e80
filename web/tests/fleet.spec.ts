// The fleet, by what a user sees and does.
import { readFile } from 'node:fs/promises';
import { findsNothing } from './axe';
import { execFileSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { resize } from './layout';
import { CPUMON, expect, SIMULATED, test } from './receiver';

test('every host is listed with CPU, peak, queue and age, and a healthy one has no mark', async ({
  page,
  receiver,
}) => {
  await page.goto(receiver.url);
  await expect(page.getByRole('heading', { name: 'Hosts', exact: true })).toBeVisible();
  const row = page.getByRole('row', { name: /sim-00001/ });
  await expect(row.locator('.busy')).toContainText(/\d+\.\d/);
  await expect(row.locator('.peak')).toContainText(/\d+\.\d/);
  await expect(row.locator('.cell.health')).toHaveText('');
  // Once for all, not on each row.
  await expect(row).not.toContainText('unauthenticated');
  const banner = page.locator('[data-state=unauthenticated]');
  await expect(banner).toContainText('3 hosts are unauthenticated');
  await banner.getByRole('button', { name: 'How to enroll' }).click();
  const dialog = page.getByRole('dialog', { name: 'Enroll a device' });
  await expect(dialog.locator('code').filter({ hasText: /^cpumon token$/ })).toBeVisible();
  await findsNothing(page);
  await page.keyboard.press('Escape');
  await expect(row.locator('.seen')).toContainText(/\d\.\d s/);
  await expect(page.getByRole('status').filter({ hasText: 'reporting' })).toContainText('4 of 4');
  await expect(
    page.getByRole('region', { name: 'busiest processes', exact: true }).getByRole('listitem').first(),
  ).toContainText(/\d/);
});

test('the host beside a busy process is not cut while there is space', async ({ page, receiver }) => {
  await page.goto(receiver.url);
  const busiest = page.getByRole('region', { name: 'busiest processes', exact: true });
  const row = busiest
    .getByRole('listitem')
    .filter({ has: page.locator('.what') })
    .first();
  const show = (program: string, host: string) =>
    row.evaluate(
      (one, texts) => {
        const parts = ['.what', '.where'].map((part) => one.querySelector(part)!);
        parts.forEach((part, at) => (part.textContent = texts[at]!));
        const areCut = parts.map((part) => part.scrollWidth > part.clientWidth);
        return { areCut, left: parts[0]!.getBoundingClientRect().left };
      },
      [program, host],
    );
  const [rustc, long] = ['rustc', 'a-program-with-a-name-of-forty-characters'];
  const short = await show(rustc, 'build-server-eu-west-17');
  expect(short.areCut).toEqual([false, false]);
  // The number before it keeps its width.
  expect(await show(long, 'vm-1')).toEqual({ areCut: [true, false], left: short.left });
  expect(await show(long, 'a-host-that-has-a-name-of-forty-letters')).toEqual({
    areCut: [true, true],
    left: short.left,
  });
});

test('search, sort and Enter work from the keyboard alone', async ({ page, receiver }) => {
  await page.goto(receiver.url);
  await expect(page.getByRole('row', { name: /sim-00002/ })).toBeVisible();
  await page.keyboard.press('/');
  await page.keyboard.type('sim-00002');
  await expect(page.getByRole('row', { name: /sim-/ })).toHaveCount(1);
  await expect(page).toHaveURL(/q=sim-00002/);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/host\//);
  await expect(page.getByRole('heading', { name: 'sim-00002' })).toBeVisible();
});

test('the order of hosts holds still under the pointer', async ({ page, receiver }) => {
  let turn = 0;
  // A stream that ends is opened again; each time the hosts are in another order.
  await page.route('**/fleet/live*', async (route) => {
    const fleet = (await (await fetch(`${receiver.url}/api/v1/fleet`)).json()) as {
      hosts: { columns: Record<string, unknown>; rows: number };
    };
    turn += 1;
    const { columns, rows } = fleet.hosts;
    columns['minute_busy_ratio'] = Array.from({ length: rows }, (_, nth) => ((nth + turn) % rows) / rows);
    await route.fulfill({
      contentType: 'text/event-stream',
      body: `retry: 100\nevent: fleet\nid: 0-${turn}\ndata: ${JSON.stringify(fleet)}\n\n`,
    });
  });
  await page.goto(receiver.url);
  const table = page.getByRole('table', { name: 'hosts' });
  const names = (): Promise<string[]> => table.locator('.cell.name').allInnerTexts();
  await expect.poll(async () => (await names()).length).toBeGreaterThan(3);
  const first = await names();
  await expect.poll(async () => (await names()).join() !== first.join()).toBe(true);
  await table.locator('.cell.name').nth(1).hover();
  const held = await names();
  const before = turn;
  await expect.poll(() => turn - before).toBeGreaterThan(3);
  expect(await names()).toEqual(held);
  await page.mouse.move(2, 2);
  await expect.poll(async () => (await names()).join() !== held.join()).toBe(true);
});

test('what the receiver cannot accept or store is shown', async ({ page, receiver }) => {
  const health = {
    store: 'failing',
    store_error: 'no space left on device',
    store_clock: "the receiver's clock is 400 d 0 h ahead of the time that the store knows",
    stored_error: 'cannot open store /var/lib/cpumon/cpumon.db: unable to open database file',
    store_dropped: 1234,
    rejected: 56,
    rejected_why: '10.0.0.9: decoding a datagram, byte 0: all bytes are zero',
    kernel_dropped: 7,
  };
  await page.route('**/fleet/live*', async (route) => {
    const fleet = (await (await fetch(`${receiver.url}/api/v1/fleet`)).json()) as object;
    await route.fulfill({
      contentType: 'text/event-stream',
      body: `event: fleet\nid: 0-1\ndata: ${JSON.stringify({ ...fleet, receiver: health })}\n\n`,
    });
  });
  await page.goto(receiver.url);
  await expect(page.locator('[data-state=failing]')).toContainText(
    'Nothing is being stored: no space left on device. New data is shown; 1,234 intervals were not stored.',
  );
  await expect(page.locator('[data-state=clock]')).toContainText("Clock: the receiver's clock is 400 d");
  await expect(page.locator('[data-state=unread]')).toContainText(
    'Hosts that do not report may be missing: cannot open store /var/lib/cpumon/cpumon.db: unable',
  );
  const losses = page.getByText('56 datagrams refused, 7 dropped by the kernel');
  await expect(losses).toBeVisible();
  await expect(losses).toHaveAttribute('title', /^most refusals: 10\.0\.0\.9: decoding a datagram, byte 0: all/);
  await findsNothing(page);
  await resize(page, 360, 740);
  await findsNothing(page);
});

test('the table of hosts is a file, as it is searched and sorted, and a command line', async ({ page, receiver }) => {
  await page.goto(`${receiver.url}/?q=sim-&sort=-name`);
  await expect(page.getByRole('row', { name: /sim-/ }).first()).toContainText('sim-00002');
  await page.getByRole('button', { name: 'Data', exact: true }).first().click();
  const dialog = page.getByRole('dialog', { name: 'The hosts as a file' });
  await expect(dialog.locator('code').first()).toHaveText(
    `cpumon hosts --url=${receiver.url} --search=sim- --sort=name --reverse --format=csv`,
  );
  await findsNothing(page);
  const [csv] = await Promise.all([
    page.waitForEvent('download'),
    dialog.getByRole('link', { name: 'Download' }).click(),
  ]);
  expect(csv.suggestedFilename()).toBe('cpumon-hosts.csv');
  const lines = (await readFile(await csv.path(), 'utf8')).split('\r\n');
  expect(lines[0]).toMatch(/^id,hostname,trust,/);
  expect(lines.slice(1, 4).map((line) => line.split(',')[1])).toEqual(['"sim-00002"', '"sim-00001"', '"sim-00000"']);
  await page.keyboard.press('Escape');
  const tops = page.getByRole('region', { name: 'busiest processes over all hosts' });
  await tops.getByRole('button', { name: 'Data', exact: true }).click();
  const busiest = page.getByRole('dialog', { name: 'The busiest processes as a file' });
  await expect(busiest.locator('code').first()).toHaveText(`cpumon hosts --url=${receiver.url} --busiest --format=csv`);
  // Of hosts that report: those of a simulation without a CPU do not for a moment.
  await expect(async () => {
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      busiest.getByRole('link', { name: 'Download' }).click(),
    ]);
    expect(file.suggestedFilename()).toBe('cpumon-busiest.csv');
    const rows = (await readFile(await file.path(), 'utf8')).split('\r\n');
    expect(rows[0]).toMatch(/^host_id,hostname,key,name,container,cpu_pct,/);
    expect(rows.some((row) => row.includes(',"sim-0000'))).toBe(true);
  }).toPass();
});

test('the sparklines are a chart to save, and a command line that gives the very file', async ({ page, receiver }) => {
  await receiver.hasRecorded(4);
  await page.goto(`${receiver.url}/?sort=-busy`);
  await expect(page.getByRole('row', { name: /sim-00002/ })).toBeVisible();
  const dialog = page.getByRole('dialog');
  const buttons = page.getByRole('group', { name: 'save the CPU of all hosts' });
  await buttons.getByRole('button', { name: 'SVG' }).click();
  await expect(dialog.locator('code')).toContainText(
    /^cpumon export chart fleet --store=\S+ --since=\S+ --until=\S+ --sort=busy /,
  );
  await expect(dialog.getByRole('link', { name: 'Download cpumon-fleet.svg' })).toBeVisible();
  await findsNothing(page);
  const env = { ...process.env, PATH: `${dirname(CPUMON)}:${process.env['PATH'] ?? ''}` };
  // What arrives late, between the two files, is only in the second one.
  await expect(async () => {
    await page.keyboard.press('Escape');
    await expect(dialog).toHaveCount(0);
    await buttons.getByRole('button', { name: 'SVG' }).click();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      dialog.getByRole('link', { name: 'Download' }).click(),
    ]);
    const saved = await readFile(await download.path(), 'utf8');
    for (const name of ['sim-00000', 'sim-00001', 'sim-00002']) expect(saved).toContain(`>${name}</text>`);
    execFileSync('sh', ['-c', await dialog.locator('code').innerText()], { cwd: receiver.dir, env });
    expect(await readFile(join(receiver.dir, 'cpumon-fleet.svg'), 'utf8')).toBe(saved);
  }).toPass();
  await page.keyboard.press('Escape');
  await expect(dialog).toHaveCount(0);
  // What is searched for is what is saved, on a narrow window too.
  await resize(page, 360, 740);
  await page.goto(`${receiver.url}/?q=sim-00001`);
  await expect(page.getByRole('row', { name: /sim-/ })).toHaveCount(1);
  await buttons.getByRole('button', { name: 'PNG' }).click();
  await expect(dialog.locator('code')).toContainText(/ --host=[0-9a-f]{32} --since=/);
  const [png] = await Promise.all([
    page.waitForEvent('download'),
    dialog.getByRole('link', { name: 'Download cpumon-fleet.png' }).click(),
  ]);
  expect([...(await readFile(await png.path())).subarray(0, 4)]).toEqual([0x89, 0x50, 0x4e, 0x47]);
  await page.keyboard.press('Escape');
  await page.goto(`${receiver.url}/?q=no-host-has-this-name`);
  await expect(buttons.getByRole('button', { name: 'PNG' })).toBeDisabled();
});

test('the busiest host of a span is found in three clicks from the first page', async ({ page, receiver }) => {
  await receiver.hasRecorded(4);
  await receiver.hasStored(...SIMULATED);
  await page.goto(receiver.url);
  await expect(page.getByRole('row', { name: /sim-00002/ })).toBeVisible();
  await page.getByRole('link', { name: 'History' }).click();
  await expect(page.getByRole('application', { name: 'hosts by time, colour is CPU' })).toBeVisible();
  await findsNothing(page);
  await page.getByRole('button', { name: '10 min', exact: true }).click();
  await expect(page).toHaveURL(/since=/);
  // The picture of the hour stays until the answer has come.
  await expect(page.getByRole('region', { name: 'hosts over time' })).toHaveAttribute('aria-busy', 'false');
  const means = page.getByRole('list', { name: 'mean %' }).getByRole('listitem');
  await expect(means).toHaveCount(4);
  const values = (await means.allTextContents()).map(Number);
  expect(values).toEqual([...values].sort((a, b) => b - a));
  const first = page.locator('.names a').first();
  const name = await first.innerText();
  await first.click();
  await expect(page).toHaveURL(/\/host\/[0-9a-f]{32}\/history\?since=\d+&until=\d+/);
  await expect(page.locator('header .host')).toHaveText(name);
});

test('all hosts are shown at a moment of the past', async ({ page, receiver }) => {
  await receiver.hasRecorded(6);
  await page.goto(`${receiver.url}/history`);
  await page.getByRole('button', { name: '10 min', exact: true }).click();
  const board = page.getByRole('application', { name: 'hosts by time, colour is CPU' });
  await board.focus();
  await page.keyboard.press('End');
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/at=\d+/);
  const table = page.getByRole('table', { name: 'hosts' });
  await expect(table.getByRole('row', { name: /sim-00001/ })).toBeVisible();
  await findsNothing(page);
  await resize(page, 360, 740);
  await findsNothing(page);
});

test('a host that does not report stays in the list after a restart of the receiver', async ({ page, receiver }) => {
  await receiver.hasRecorded(4);
  await receiver.hasStored(...SIMULATED);
  await receiver.silence();
  try {
    await receiver.stop();
    await receiver.start();
    await page.goto(receiver.url);
    const row = page.getByRole('row', { name: /sim-00001/ });
    await expect(row.locator('.cell.health')).toHaveText('not reporting');
    const id = /host\/([0-9a-f]{32})/.exec((await row.getByRole('link').first().getAttribute('href')) ?? '')?.[1];
    await page.goto(`${receiver.url}/host/${id}`);
    await expect(page.getByRole('alert')).toContainText('sim-00001 does not report');
    await findsNothing(page);
    await page.getByRole('link', { name: 'Open its history' }).click();
    await expect(page).toHaveURL(/history\?since=/);
  } finally {
    receiver.simulate();
  }
});

test('no title of the hosts is cut at any width', async ({ page, receiver }) => {
  await page.goto(`${receiver.url}/?sort=-queue`);
  const titles = page.getByRole('table', { name: 'hosts' }).getByRole('columnheader');
  await expect(titles.first()).toBeVisible();
  for (const width of [360, 500, 760, 800, 910, 1020, 1100, 1440]) {
    await resize(page, width, 800);
    const cut = (): Promise<string[]> =>
      titles.evaluateAll((all) =>
        all
          .filter((one) => one.getClientRects().length > 0)
          .filter((one) => {
            const range = document.createRange();
            range.selectNodeContents(one);
            const [text, cell] = [range.getBoundingClientRect(), one.getBoundingClientRect()];
            return text.right > cell.right + 0.5 || text.left < cell.left - 0.5;
          })
          .map((one) => one.textContent.trim()),
      );
    await expect.poll(cut, `${width} px`).toEqual([]);
  }
});
