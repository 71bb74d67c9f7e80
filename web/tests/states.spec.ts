// Every view in every state, on a wide and a narrow window, on the wide one in both colour schemes: axe finds nothing, and nothing is
// wider than the window.
// With CPUMON_PICTURES=DIR each is saved as a picture for review.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test as base, type Page } from '@playwright/test';
import { findsNothing } from './axe';
import { drawn, resize, timeLineBox } from './layout';
import { expect, lockedTest, test, type Receiver } from './receiver';
import { ANSWER } from './why-answer';

/** They need nothing of each other. */
test.describe.configure({ mode: 'parallel' });

const { CPUMON_PICTURES: PICTURES } = process.env;
const SCHEMES = ['light', 'dark'] as const;
const WIDTHS = [1440, 360] as const;

/** The page as it is, in each scheme and width. */
async function everywhere(page: Page, name: string): Promise<void> {
  for (const width of WIDTHS) {
    await resize(page, width, width === 360 ? 740 : 900);
    for (const colorScheme of SCHEMES) {
      // No rule for narrow windows has a colour of its own.
      const isNew = colorScheme === 'light' || width === 1440;
      if (!isNew && !PICTURES) continue;
      await page.emulateMedia({ colorScheme });
      await drawn(page);
      if (isNew)
        await base.step(`${colorScheme}, ${width} px`, () =>
          findsNothing(page, colorScheme === 'light' ? 'all' : 'colours'),
        );
      if (!PICTURES) continue;
      mkdirSync(PICTURES, { recursive: true });
      await page.screenshot({ path: join(PICTURES, `${name.replaceAll(/\W+/g, '-')}-${width}-${colorScheme}.png`) });
    }
  }
}

/** A view of the measured machine, over its last minute. */
async function open(page: Page, receiver: Receiver, path: string, query = ''): Promise<void> {
  await receiver.hasRecorded(4);
  const now = Date.now();
  await page.goto(`${receiver.url}/host/${await receiver.local()}${path}?since=${now - 60_000}&until=${now}${query}`);
}

async function settled(page: Page): Promise<void> {
  await expect(page.locator('main').locator('canvas, table, [role=treegrid], code').first()).toBeVisible();
  await expect(page.locator('[data-state=loading]')).toHaveCount(0);
  // The rows of an older question are dimmed until the answer comes.
  await expect(page.locator('main [aria-busy=true]')).toHaveCount(0);
}

/** What the receiver says to those it knows under another name. */
const FORBIDDEN = {
  status: 403,
  contentType: 'application/problem+json',
  body: JSON.stringify({
    type: 'about:blank',
    title: 'Not allowed',
    status: 403,
    detail: 'The receiver does not answer to this name.',
    how: '',
  }),
};

/** A moment, once there is something in it. */
async function instant(receiver: Receiver): Promise<string> {
  await receiver.hasRecorded(4);
  return `&at=${Date.now() - 2000}000000`;
}

/** How each comes to be. */
const STATES: Record<string, (page: Page, receiver: Receiver) => Promise<void>> = {
  fleet: async (page, receiver) => {
    await page.goto(receiver.url);
    await expect(page.getByRole('row', { name: /sim-00001/ })).toBeVisible();
  },
  'fleet, nothing found': async (page, receiver) => {
    await page.goto(`${receiver.url}/?q=no-such-host`);
    await expect(page.locator('[data-state=empty]')).toContainText('Nothing found');
  },
  'fleet, data dialog': async (page, receiver) => {
    await page.goto(receiver.url);
    await page.getByRole('button', { name: 'Data', exact: true }).first().click();
    await expect(page.getByRole('dialog').locator('code').first()).toContainText('cpumon hosts');
  },
  'fleet, no permission': async (page, receiver) => {
    await page.route('**/api/v1/{session,fleet*,fleet/live*}', (route) => route.fulfill(FORBIDDEN));
    await page.goto(receiver.url);
    await expect(page.locator('[data-state=denied]')).toContainText('No permission');
  },
  live: async (page, receiver) => {
    // One row: of many, a selected one sinks out of sight as soon as others are busier.
    await open(page, receiver, '', `&q=${receiver.hostilePid}`);
    await expect(page.getByText('1 process found')).toBeVisible();
    await page.getByRole('treegrid').focus();
    await page.keyboard.press('ArrowDown');
    await expect(page.getByRole('treegrid').locator('[aria-selected=true]')).toHaveCount(1);
  },
  'live, columns': async (page, receiver) => {
    await open(page, receiver, '');
    await page.getByRole('button', { name: 'Columns' }).click();
    await expect(page.getByRole('checkbox', { name: 'user' })).toBeVisible();
  },
  'live, run queue': async (page, receiver) => open(page, receiver, '', '&chart=queue'),
  'live, nothing found': async (page, receiver) => {
    await open(page, receiver, '', '&q=no-such-task');
    await expect(page.locator('[data-state=empty]')).toContainText('Nothing found');
  },
  'live, no such host': async (page, receiver) => {
    await page.goto(`${receiver.url}/host/no-such-host`);
    await expect(page.getByRole('alert')).toContainText('No such host');
  },
  'live, loading': async (page, receiver) => {
    await page.route('**/live*', () => undefined);
    await open(page, receiver, '');
    await expect(page.locator('[data-state=loading]')).toContainText('Waiting for the first interval');
  },
  'live, no permission': async (page, receiver) => {
    await page.route('**/api/v1/{session,hosts/*/live*,hosts/*/at*}', (route) => route.fulfill(FORBIDDEN));
    await open(page, receiver, '');
    await expect(page.locator('[data-state=denied]')).toContainText('No permission');
  },
  recording: async (page, receiver) => {
    const recording = { number: 1, state: 'recording', left_ms: 7_000, events: 81_000, lost: 12, bytes: 0, detail: '' };
    await page.route('**/recording', (route) =>
      route.fulfill({ json: { can_record: true, can_take: true, last_seconds: 10, how: '', recording } }),
    );
    await open(page, receiver, '');
    await expect(page.getByRole('region', { name: 'trace', exact: true })).toContainText('7 s left, 81,000 events');
  },
  paused: async (page, receiver) => {
    await open(page, receiver, '');
    await expect(page.getByRole('treegrid')).toBeVisible();
    await page.keyboard.press('Space');
    await expect(page.getByText('Paused')).toBeVisible();
  },
  threads: async (page, receiver) => {
    await open(page, receiver, '', '&by=threads');
    await expect(page.getByRole('region', { name: 'tasks' })).toContainText(/\d+\s+threads/);
  },
  help: async (page, receiver) => {
    await open(page, receiver, '');
    await expect(page.getByRole('treegrid')).toBeVisible();
    await page.keyboard.press('?');
    await expect(page.getByRole('dialog')).toContainText('Keys and terms');
  },
  'why slow': async (page, receiver) => {
    await page.route(/\/why(\?|$)/, (route) => route.fulfill({ json: ANSWER }));
    await open(page, receiver, '', '&why=machine');
    await expect(page.getByRole('dialog')).toContainText('High. It rests on');
  },
  process: async (page, receiver) => open(page, receiver, `/process/${await receiver.someProcess()}`),
  history: async (page, receiver) => open(page, receiver, '/history'),
  'history, loading': async (page, receiver) => {
    await page.route('**/charts*', () => undefined);
    await page.goto(`${receiver.url}/host/${await receiver.local()}/history`);
    await expect(page.locator('[data-state=loading]').first()).toContainText('Reading the store');
  },
  'history, no permission': async (page, receiver) => {
    await page.route('**/api/v1/hosts/*/*', (route) => route.fulfill(FORBIDDEN));
    await page.goto(`${receiver.url}/host/${await receiver.local()}/history`);
    await expect(page.locator('[data-state=denied]').first()).toContainText('Not allowed');
  },
  'history, nothing in this span': async (page, receiver) => {
    await receiver.hasRecorded(4);
    await page.goto(`${receiver.url}/host/${await receiver.local()}/history?since=1000&until=2000000`);
    await expect(page.locator('[data-state=gap]')).toContainText('No data in this span');
  },
  instant: async (page, receiver) => open(page, receiver, '/history', await instant(receiver)),
  'instant, newest': async (page, receiver) => open(page, receiver, '/history', '&tab=instant'),
  'a span by process': async (page, receiver) => {
    await open(page, receiver, '/history', '&by=process&q=e&in=user:root');
    await expect(page.getByRole('tabpanel').getByRole('link').first()).toBeVisible();
  },
  compare: async (page, receiver) => {
    await open(page, receiver, '/history', '&cmp=before');
    await expect(page.getByRole('table').locator('td.change').first()).toBeVisible();
  },
  'a selection': async (page, receiver) => {
    await open(page, receiver, '/history');
    await settled(page);
    const box = await timeLineBox(page);
    await page.mouse.move(box.x + box.width * 0.6, box.y + 20);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.9, box.y + 20, { steps: 4 });
    await page.mouse.up();
    await expect(page.getByRole('group', { name: 'selected span' })).toBeVisible();
  },
  'span, data dialog': async (page, receiver) => {
    await open(page, receiver, '/history');
    await page.getByRole('tabpanel').getByRole('button', { name: 'Data', exact: true }).click();
    await expect(page.getByRole('dialog').locator('code').first()).toContainText('cpumon report');
  },
  heatmap: async (page, receiver) => open(page, receiver, '/landscape', '&as=heatmap'),
  '3D': async (page, receiver) => {
    await open(page, receiver, '/landscape', '&as=3d');
    await expect(page.locator('.scene canvas').first()).toBeVisible();
  },
  'landscape, empty': async (page, receiver) => {
    await page.goto(`${receiver.url}/host/${await receiver.local()}/landscape?since=1000&until=2000000`);
    await expect(page.locator('[data-state=empty]')).toContainText('Nothing ran in this span');
  },
  export: async (page, receiver) => open(page, receiver, '/export'),
  'chart dialog': async (page, receiver) => {
    await open(page, receiver, '/history');
    await settled(page);
    await page.getByRole('region', { name: 'time line' }).getByRole('button', { name: 'SVG' }).click();
    await expect(page.getByRole('dialog').locator('.seen')).toHaveAttribute('aria-busy', 'false');
  },
};
/** States without any picture or table. */
const BARE = /loading|nothing|no such|no permission|empty/;

for (const [name, make] of Object.entries(STATES)) {
  test(`axe finds nothing: ${name}`, async ({ page, receiver }) => {
    await make(page, receiver);
    if (!BARE.test(name)) await settled(page);
    await everywhere(page, name);
  });
}

/** How long an agent is silent: 17 s, 2 min 05 s, 3 min. */
function secondsOf(text: string): number {
  const [, minutes = 0, seconds = 0] = /Agent silent for (?:(\d+) min)? ?(?:(\d+) s)?/.exec(text) ?? [];
  return Number(minutes) * 60 + Number(seconds);
}

test('axe finds nothing: the agent stopped', async ({ page, receiver }) => {
  await page.goto(`${receiver.url}/host/sim-00001`);
  await expect(page.getByRole('treegrid')).toBeVisible();
  await receiver.silence();
  const silencedAt = Date.now();
  try {
    await expect(page.locator('[data-state=stopped]')).toContainText('Agent late');
    // Nothing is called live that is not.
    await expect(page.getByRole('status').filter({ hasText: /^agent late$/ })).toBeVisible();
    await everywhere(page, 'agent late');
    await page.goto(receiver.url);
    // Silent, not zero.
    await expect(page.getByRole('row', { name: /sim-00002/ }).locator('[data-state=stopped]')).toContainText('silent');
    // The receiver is up, and that is all it says.
    await expect(page.getByRole('status').filter({ hasText: /^receiver up$/ })).toBeVisible();
    await everywhere(page, 'fleet, agents stopped');
    await resize(page, 1440, 900);
    await page.getByRole('link', { name: 'sim-00002', exact: true }).click();
    const stopped = page.locator('[data-state=stopped]');
    await expect(stopped).toContainText('Agent silent');
    // A page opened now shows at once for how long no data has come, not since when it waits.
    await page.goto(`${receiver.url}/host/sim-00001`);
    await expect
      .poll(async () => {
        // What is on its way for long shows a little less; since the page was opened would be 15 s less.
        const least = (Date.now() - silencedAt) / 1000 - 10;
        return secondsOf(await stopped.innerText()) >= least;
      })
      .toBe(true);
    await expect(page.getByRole('status').filter({ hasText: /^agent silent$/ })).toBeVisible();
    await everywhere(page, 'agent stopped');
  } finally {
    receiver.simulate();
  }
});

test('axe finds nothing: the receiver is lost', async ({ page, receiver }) => {
  await open(page, receiver, '');
  await settled(page);
  const fleet = await page.context().newPage();
  await fleet.goto(receiver.url);
  await expect(fleet.getByRole('row', { name: /sim-00001/ })).toBeVisible();
  await receiver.stop();
  try {
    await expect(page.locator('[data-state=lost]')).toContainText('Receiver lost');
    await everywhere(page, 'receiver lost');
    await expect(fleet.getByRole('status').filter({ hasText: 'receiver lost' })).toBeVisible();
    await everywhere(fleet, 'fleet, receiver lost');
    // A view that was not open before cannot come.
    await page.getByRole('link', { name: 'Landscape' }).click();
    await expect(page.locator('[data-state=lost]')).toContainText('This view failed to load');
    await everywhere(page, 'view lost');
  } finally {
    await receiver.start();
  }
});

lockedTest('axe finds nothing: login', async ({ page, locked }) => {
  await page.goto(locked.url);
  await expect(page.getByRole('heading', { name: 'Log in' })).toBeVisible();
  await everywhere(page, 'login');
  await page.getByLabel('Token').fill('not-a-token-of-this-receiver');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('alert')).toBeVisible();
  await everywhere(page, 'login refused');
});
