// The browser of the measurements. In: an address. Out: an open page, its meters, its end. Why: each measurement counts the same way.
import { chromium } from 'playwright-core';

export const ARGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** Debian's Chromium, or what CHROMIUM names. */
export function launch(more = []) {
  return chromium.launch({ executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium', args: [...ARGS, ...more] });
}

/** A page that has shown itself for `settleMs`; `metrics` returns Chromium's counters so far, times as CPU time of the main thread. */
export async function openPage(address, settleMs) {
  const browser = await launch();
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  const client = await page.context().newCDPSession(page);
  await client.send('Performance.enable', { timeDomain: 'threadTicks' });
  await page.goto(address);
  await page.waitForTimeout(settleMs);
  const metrics = async () =>
    Object.fromEntries((await client.send('Performance.getMetrics')).metrics.map(({ name, value }) => [name, value]));
  return { browser, page, client, metrics };
}

/** Sorts values; returns the quantile at a share of them, with one digit. */
export function quantiles(values) {
  values.sort((a, b) => a - b);
  return (share) => (values[Math.min(values.length - 1, Math.floor(values.length * share))] ?? NaN).toFixed(1);
}
