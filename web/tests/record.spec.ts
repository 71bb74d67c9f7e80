// A trace by a button of the live page. In: a receiver that may use BPF. Out: progress, the timeline by one click, a mark in History; where
// a host cannot be recorded, a line says what is missing.
import { findsNothing } from './axe';
import { expect, test } from './receiver';

test('a recording is shown while it runs, opens as a timeline, and has its mark in History', async ({
  page,
  receiver,
}) => {
  const needs = 'it needs root for BPF';
  test.skip(process.getuid?.() !== 0 && !process.env['CI'], needs);
  const host = `${receiver.url}/host/${await receiver.local()}`;
  // Longer than the way to *Stop* takes on any machine.
  await page.route('**/recording?seconds=10', (route) =>
    route.continue({ url: route.request().url().replace('seconds=10', 'seconds=60') }),
  );
  await page.goto(host);
  const button = page.getByRole('button', { name: 'Record 10 s' });
  await button.focus();
  await page.keyboard.press('Enter');
  const strip = page.getByRole('region', { name: 'trace', exact: true });
  await expect(strip).toContainText(/\d+ s left, [1-9][\d,.]* events/);
  await expect(button).toBeDisabled();
  await expect(button, 'the keyboard keeps its place').toBeFocused();
  // One at a time: another window gets the reason.
  const second = await page.request.post(`${receiver.url}/api/v1/hosts/${await receiver.local()}/recording`);
  expect(second.status()).toBe(409);
  expect(((await second.json()) as { detail: string }).detail).toContain('under way');
  await strip.getByRole('button', { name: 'Stop' }).click();
  const link = strip.getByRole('link', { name: /Open trace \d+/ });
  await expect(link).toBeVisible();
  await findsNothing(page);
  const name = await link.innerText();
  await link.click();
  await expect(page).toHaveURL(/\/trace\/\d+/);
  await expect(page.getByRole('application', { name: /^timeline/ })).toBeVisible();
  await expect(page.getByRole('region', { name: 'window', exact: true })).toContainText('running');
  await receiver.hasRecordedNow();
  // Other tests record too.
  const trace = name.replace(/\D/g, '');
  const mark = page
    .getByRole('group', { name: 'traces' })
    .getByRole('link', { name: `Trace ${trace}: recorded by a user` });
  // From a link alone the way leads to what the host did around it.
  await page.locator('main').getByRole('link', { name: 'History' }).click();
  await expect(mark).toHaveAttribute('href', `/trace/${trace}`);
  // The live page has it when it is opened again, until its line is closed.
  await page.goto(host);
  const last = strip.getByRole('link', { name: /^Trace \d+$/ });
  await expect(last).toBeVisible();
  await strip.getByRole('button', { name: 'Close' }).click();
  await expect(strip).toHaveCount(0);
  await page.goto(`${host}/history?since=now-5min&until=now`);
  await expect(mark).toHaveAttribute('href', `/trace/${trace}`);
});

test('a host that cannot be recorded has no button, and its accounts say what to do', async ({ page, receiver }) => {
  await page.goto(`${receiver.url}/host/sim-00002?accounts=1`);
  const accounts = page.getByRole('region', { name: 'accounts and interrupts' });
  await expect(accounts).toContainText('Traces come from enrolled devices');
  await expect(page.getByRole('button', { name: /^(Record|Take)/ })).toHaveCount(0);
});
