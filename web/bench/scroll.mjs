// How smoothly a long grid scrolls. In: a receiver's address, a path, pixels a frame. Out: times between frames, and the main thread's work
// for each. Why: "20,000 rows scroll at 60 frames a second" is a figure. Run: npm run bench:scroll -- URL PATH [PIXELS FRAMES]
import { openPage, quantiles } from './browser.mjs';

const [url = 'http://127.0.0.1:3080', path = '/', pixels = '120', frames = '600'] = process.argv.slice(2);
const { browser, page, metrics } = await openPage(url + path, 6_000);
const work = async () => (await metrics())['TaskDuration'] ?? NaN;
const before = await work();
const { times, rows, blank } = await page.evaluate(
  async ([step, count]) => {
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
      if (!document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2)?.closest('[role=row]'))
        blank += 1;
    }
    return { times, rows: grid.getAttribute('aria-rowcount'), blank };
  },
  [Number(pixels), Number(frames)],
);
const cost = ((await work()) - before) * 1000;
const at = quantiles(times);
console.log(
  `${rows} rows, ${times.length} frames of ${pixels} px: ${at(0.5)} ms between frames median, ${at(0.95)} ms p95, ${at(1)} ms worst; ` +
    `main thread ${(cost / times.length).toFixed(1)} ms a frame; ${blank} frames without rows`,
);
await browser.close();
