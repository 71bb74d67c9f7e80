// What open pages cost the receiver. In: its address and process id, how many pages, seconds, a path. Out: its CPU time without and with
// them, in percent of one CPU. Why: "ten open pages on a fleet add at most a fifth of a core" is a figure. Pages are plain readers of the
// stream, as many as asked for, so that only the receiver is measured. Run: npm run bench:fleet -- URL PID [PAGES SECONDS PATH]
import { readFileSync } from 'node:fs';
import { get } from 'node:http';

const [url, pid, pages = '10', length = '30', path = '/api/v1/fleet/live'] = process.argv.slice(2);
if (!url || !pid) throw new Error('usage: fleet.mjs URL PID [PAGES SECONDS PATH]');
const TICKS_A_SECOND = 100;

/** utime and stime of /proc/PID/stat, in seconds; the name in it may hold spaces. */
function cpuSeconds() {
  const after = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return (Number(after[11]) + Number(after[12])) / TICKS_A_SECOND;
}

async function measure(seconds) {
  const [cpu, began] = [cpuSeconds(), performance.now()];
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  return ((cpuSeconds() - cpu) * 100) / ((performance.now() - began) / 1000);
}

const read = { bytes: 0, messages: 0 };
function open() {
  return get(url + path, { headers: { accept: 'text/event-stream', 'accept-encoding': 'br, gzip' } }, (answer) => {
    answer.on('data', (chunk) => {
      read.bytes += chunk.length;
      if (chunk.includes('event: ')) read.messages += 1;
    });
  }).on('error', () => undefined);
}

// Without, with, without, with: a fleet's load drifts.
const figures = { without: [], with: [] };
for (let turn = 0; turn < 2; turn += 1) {
  figures.without.push(await measure(Number(length)));
  const requests = Array.from({ length: Number(pages) }, open);
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  read.bytes = read.messages = 0;
  figures.with.push(await measure(Number(length)));
  requests.forEach((request) => request.destroy());
  await new Promise((resolve) => setTimeout(resolve, 2_000));
}
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
console.log(
  `receiver without pages ${figures.without.map((value) => value.toFixed(1)).join(', ')} % of one CPU; with ${pages} ` +
    `${figures.with.map((value) => value.toFixed(1)).join(', ')} %; added ${(mean(figures.with) - mean(figures.without)).toFixed(1)} %; ` +
    `${(read.messages / Number(length) / Number(pages)).toFixed(2)} messages a second and page, ` +
    `${(read.bytes / Math.max(read.messages, 1) / 1000).toFixed(0)} kB each`,
);
