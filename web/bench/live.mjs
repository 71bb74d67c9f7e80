// What a live view costs the browser. In: a receiver's address, a path, seconds. Out: main-thread time a second, which is a
// snapshot (median, worst), and the heap over time. Run: npm run bench -- URL PATH SECONDS
// The receiver must send one snapshot a second (the usual interval). The CPU time of the main thread is counted, so a busy
// machine adds nothing.
import { openPage, quantiles } from './browser.mjs';

const [url = 'http://127.0.0.1:3080', path = '/', length = '60'] = process.argv.slice(2);
const { browser, page, client, metrics } = await openPage(url + path, 8_000);

async function heapMb() {
  await client.send('HeapProfiler.collectGarbage');
  return (await metrics())['JSHeapUsedSize'] / 1e6;
}

// Long tasks are single pieces of work above 50 ms; the sum a second counts all work of the main thread, drawing included.
await page.evaluate(() => {
  globalThis.long = [];
  new PerformanceObserver((list) => list.getEntries().forEach((entry) => globalThis.long.push(entry.duration))).observe(
    { type: 'longtask' },
  );
});
// Without garbage, at the begin and after each fifth: a plot that fills grows once, a leak goes on.
const heaps = [await heapMb()];
const costs = [];
const first = await metrics();
let before = await metrics();
let began = performance.now();
for (let turn = 0; turn < Number(length); turn += 1) {
  await page.waitForTimeout(1_000);
  const now = await metrics();
  const seconds = (performance.now() - began) / 1000;
  began = performance.now();
  costs.push(((now['TaskDuration'] - before['TaskDuration']) * 1000) / seconds);
  before = now;
  if ((turn + 1) % Math.ceil(Number(length) / 5) === 0 || turn + 1 === Number(length)) {
    heaps.push(await heapMb());
    before = await metrics();
    began = performance.now();
  }
}
const rows = await page.evaluate(() => document.querySelector('[role=treegrid]')?.getAttribute('aria-rowcount'));
const long = await page.evaluate(() => globalThis.long);
const at = quantiles(costs);
console.log(
  `${costs.length} s, ${rows} rows: main thread ${at(0.5)} ms median, ${at(0.95)} ms p95, ${at(1)} ms worst a second; ` +
    `${long.length} tasks above 50 ms${long.length > 0 ? ` (longest ${Math.max(...long).toFixed(0)} ms)` : ''}; ` +
    `heap ${heaps.map((mb) => mb.toFixed(2)).join(', ')} MB`,
);
const last = await metrics();
const part = (name) => `${name} ${(((last[name] - first[name]) * 1000) / costs.length).toFixed(1)}`;
console.log(
  `ms a second, mean: ${['ScriptDuration', 'LayoutDuration', 'RecalcStyleDuration', 'TaskDuration'].map(part).join(', ')}`,
);
await browser.close();
