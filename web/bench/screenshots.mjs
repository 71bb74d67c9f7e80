// Pictures of the page. In: a receiver's address and a directory. Out: PNG files. Why: README and book show the real program.
import { launch } from './browser.mjs';

const [url = '', directory = '.'] = process.argv.slice(2);
const browser = await launch(['--enable-unsafe-swiftshader']);
const { hosts } = await (await fetch(`${url}/api/v1/hosts`)).json();
const local = `${url}/host/${hosts.find((host) => host.trust === 'local').id}`;
const until = Date.now();
const span = `since=${until - 90_000}&until=${until}`;

/** One picture; `act` is what a user would do before. */
async function shoot(name, address, colorScheme, act = async () => undefined) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 760 }, colorScheme });
  await page.goto(address);
  await page.waitForTimeout(5_000);
  await act(page);
  await page.waitForTimeout(2_500);
  await page.screenshot({ path: `${directory}/${name}.png` });
  await page.close();
}

const open = async (page) => {
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowRight');
};
/** A click into the storm. */
const spike = async (page) => {
  const box = await page.locator('.u-over').first().boundingBox();
  await page.mouse.click(box.x + box.width * 0.55, box.y + box.height / 2);
};

await shoot('fleet', url, 'light');
// A minute: the whole plot has data.
await shoot('live', `${local}?span=60`, 'dark', open);
await shoot('history', `${local}/history?${span}`, 'light', spike);
const now = await (await fetch(`${local.replace('/host/', '/api/v1/hosts/')}/at?limit=200`)).json();
const { key, name } = now.processes.columns;
await shoot(
  'process',
  `${local}/process/${key[name.index ? name.index.findIndex((at) => name.values[at] === 'cpumon') : name.indexOf('cpumon')]}?${span}`,
  'light',
);
await shoot('why', `${local}/history?${span}&why=machine`, 'light');
await shoot('landscape', `${local}/landscape?${span}`, 'dark');
await browser.close();
