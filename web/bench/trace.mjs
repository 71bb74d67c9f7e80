// How a trace of millions of events is to use. In: the address that `cpumon trace view FILE` prints. Out: ms to the first picture, time and
// main-thread CPU time between frames while the window zooms and moves, memory of the browser's renderer. Run: npm run bench:trace -- URL
import { readFileSync } from 'node:fs';
import { launch, quantiles } from './browser.mjs';

const [url = ''] = process.argv.slice(2);
const TURNS = 5;
const FRAMES = 300;
const browser = await launch();
const control = await browser.newBrowserCDPSession();

/** PSS of the renderers, MB: what they share with other processes counts in parts. */
async function rendererMb() {
  const { processInfo } = await control.send('SystemInfo.getProcessInfo');
  const sizes = processInfo
    .filter(({ type }) => type === 'renderer')
    .map(({ id }) => Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${id}/smaps_rollup`, 'utf8'))?.[1] ?? 0));
  return sizes.reduce((sum, kib) => sum + kib / 1000, 0);
}

/** Whether slices are on the canvas: the rows have more than a handful of colours. */
const isDrawn = () => {
  const canvas = document.querySelector('[role=application] canvas');
  if (!canvas || canvas.width < 400) return false;
  const { data } = canvas.getContext('2d').getImageData(Math.round(canvas.width * 0.3), 40, 300, 40);
  const colors = new Set();
  for (let at = 0; at < data.length; at += 4) colors.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
  return colors.size > 8;
};

const first = [];
for (let turn = 0; turn < TURNS; turn += 1) {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  const began = performance.now();
  await page.goto(url, { waitUntil: 'commit' });
  await page.waitForFunction(isDrawn, undefined, { polling: 'raf' });
  first.push(performance.now() - began);
  await page.close();
}
const ofFirst = quantiles(first);
console.log(`first picture: ${ofFirst(0.5)} ms median, ${ofFirst(1)} ms worst of ${first.length}`);

const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
const client = await page.context().newCDPSession(page);
await client.send('Performance.enable', { timeDomain: 'threadTicks' });
const cpuMs = async () => {
  const { metrics } = await client.send('Performance.getMetrics');
  return 1000 * (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? NaN);
};
await page.goto(url);
await page.waitForFunction(isDrawn, undefined, { polling: 'raf' });
await page.waitForTimeout(1000);

/** Turns the wheel once a frame: in and out again to the whole trace, or sideways. */
const turnWheel = ([kind, frames]) =>
  new Promise((resolve) => {
    const canvas = document.querySelector('[role=application] canvas');
    const box = canvas.getBoundingClientRect();
    const at = { clientX: box.left + box.width * 0.6, clientY: box.top + 60, bubbles: true, cancelable: true };
    const times = [];
    let last = 0;
    const step = (now) => {
      if (last > 0) times.push(now - last);
      last = now;
      const nth = times.length;
      if (nth >= frames) return resolve(times);
      const isIn = nth % 120 < 60;
      const turn = kind === 'zoom' ? { deltaY: isIn ? -100 : 100 } : { deltaX: isIn ? 40 : -40 };
      canvas.dispatchEvent(new WheelEvent('wheel', { ...at, ...turn }));
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });

for (const kind of ['zoom', 'pan']) {
  // Moving is of a window of some ms, in which single slices are drawn.
  if (kind === 'pan') await page.evaluate(turnWheel, ['zoom', 30]);
  await page.waitForTimeout(500);
  const before = await cpuMs();
  const times = await page.evaluate(turnWheel, [kind, FRAMES]);
  const cpu = (await cpuMs()) - before;
  const at = quantiles(times);
  console.log(
    `${kind}: ${at(0.5)} ms between frames (median), p95 ${at(0.95)}, worst ${at(1)} of ${times.length}; ` +
      `${(cpu / times.length).toFixed(1)} ms of main-thread CPU time a frame`,
  );
}
console.log(`renderer: ${(await rendererMb()).toFixed(0)} MB`);
await browser.close();
