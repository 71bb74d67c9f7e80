// How long a user waits for a day. In: a receiver's address and a host whose last 24 h it has. Out: ms from the address to the first chart,
// from a click on it to the processes of that instant, and to the heatmap of a process's threads. Run: npm run bench:past -- URL HOST
import { launch, quantiles } from './browser.mjs';

const [url = 'http://127.0.0.1:3080', host = ''] = process.argv.slice(2);
const TURNS = 7;
const browser = await launch();
const { kept } = await (await fetch(`${url}/api/v1/hosts/${host}/series?since=0&until=${9e18}&points=10`)).json();
const until = Number(BigInt(kept.last_ns) / 1_000_000n);
const span = `since=${until - 86_400_000}&until=${until}`;
const times = { chart: [], click: [], threads: [] };

async function timed(into, act) {
  const began = performance.now();
  await act();
  into.push(performance.now() - began);
}

const moment = await (await fetch(`${url}/api/v1/hosts/${host}/at?at=${kept.last_ns}&limit=5`)).json();
const { key } = moment.processes.columns;
for (let turn = 0; turn < TURNS; turn += 1) {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  await timed(times.chart, async () => {
    await page.goto(`${url}/host/${host}/history?${span}`, { waitUntil: 'commit' });
    await page.waitForSelector('.plot canvas', { polling: 'raf' });
  });
  const shown = page.locator('[aria-label=host] .when');
  await shown.waitFor();
  await page.waitForTimeout(300);
  const before = await shown.innerText();
  const box = await page.locator('.u-over').first().boundingBox();
  await timed(times.click, async () => {
    await page.mouse.click(box.x + box.width * (0.1 + turn * 0.1), box.y + box.height / 2);
    await page.waitForFunction(
      (old) => document.querySelector('[aria-label=host] .when')?.textContent !== old,
      before,
      { polling: 'raf' },
    );
  });
  await timed(times.threads, async () => {
    await page.goto(`${url}/host/${host}/process/${Array.isArray(key) ? key[0] : key}?${span}`, {
      waitUntil: 'commit',
    });
    await page.waitForSelector('[role=application] canvas', { polling: 'raf' });
  });
  await page.close();
}
for (const [what, values] of Object.entries(times)) {
  const at = quantiles(values);
  console.log(`${what}: ${at(0.5)} ms median, ${at(1)} ms worst of ${values.length}`);
}
await browser.close();
