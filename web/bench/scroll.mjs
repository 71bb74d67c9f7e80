// How smoothly a long grid scrolls. In: a receiver's address, a path, pixels a frame. Out: times between frames, and the main thread's work
// for each. Why: "20,000 rows scroll at 60 frames a second" is a figure. Run: npm run bench:scroll -- URL PATH [PIXELS FRAMES]
import { chromium } from 'playwright-core';

const [url = 'http://127.0.0.1:3080', path = '/', pixels = '120', frames = '600'] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
const client = await page.context().newCDPSession(page);
await client.send('Performance.enable', { timeDomain: 'threadTicks' });
await page.goto(url + path);
await page.waitForTimeout(6_000);
const work = async () => (await client.send('Performance.getMetrics')).metrics.find(({ name }) => name === 'TaskDuration')?.value ?? NaN;
const before = await work();
const { times, rows, blank } = await page.evaluate(async ([step, count]) => {
  const grid = document.querySelector('[role=treegrid]');
  const times = [];
  let blank = 0;
  let last = await new Promise(requestAnimationFrame);
  for (let frame = 0; frame < count; frame += 1) {
    grid.scrollTop += step;
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
    // A row must stand in the middle of the grid, not the empty ground.
    const box = grid.getBoundingClientRect();
    if (!document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2)?.closest('[role=row]')) blank += 1;
  }
  return { times, rows: grid.getAttribute('aria-rowcount'), blank };
}, [Number(pixels), Number(frames)]);
const cost = ((await work()) - before) * 1000;
times.sort((a, b) => a - b);
const at = (share) => (times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? NaN).toFixed(1);
console.log(`${rows} rows, ${times.length} frames of ${pixels} px: ${at(0.5)} ms between frames median, ${at(0.95)} ms p95, ${at(1)} ms worst; ` +
  `main thread ${(cost / times.length).toFixed(1)} ms a frame; ${blank} frames without rows`);
await browser.close();
