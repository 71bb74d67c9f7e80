// The page in Firefox. In: a receiver's address. Out: exit 0 when each view shows its data there and Firefox complains of nothing.
// Why: the tests run in Chromium; this checks the other browser. Firefox is driven over WebDriver BiDi, which it speaks itself,
// so nothing is installed for it. Run: npm run firefox -- URL [PICTURE.png]
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const [url, picture] = process.argv.slice(2);
if (!url) throw new Error('usage: firefox.mjs URL [PICTURE.png]');
const program = process.env['FIREFOX'] ?? 'firefox-esr';
const profile = mkdtempSync(join(tmpdir(), 'cpumon-firefox-'));
writeFileSync(
  join(profile, 'user.js'),
  [
    'browser.shell.checkDefaultBrowser',
    'datareporting.policy.dataSubmissionEnabled',
    'app.update.enabled',
    'network.captive-portal-service.enabled',
  ]
    .map((name) => `user_pref("${name}", false);\n`)
    .join(''),
);
const firefox = spawn(
  program,
  ['--headless', '--no-remote', '--profile', profile, '--remote-debugging-port', '0', 'about:blank'],
  { stdio: ['ignore', 'ignore', 'pipe'] },
);

const address = await new Promise((resolve, reject) => {
  let seen = '';
  firefox.on('error', reject);
  firefox.on('exit', (code) => reject(new Error(`${program} ended with ${code}: ${seen}`)));
  firefox.stderr.on('data', (chunk) => {
    seen += chunk;
    const found = seen.match(/listening on (ws:\S+)/);
    if (found) resolve(found[1]);
  });
});
const socket = new WebSocket(`${address}/session`);
await new Promise((resolve, reject) => {
  socket.onopen = resolve;
  socket.onerror = () => reject(new Error(`no connection to ${address}`));
});
const waiting = new Map();
const complaints = [];
socket.onmessage = ({ data }) => {
  const message = JSON.parse(data);
  if (message.method === 'log.entryAdded' && message.params.level === 'error') complaints.push(message.params.text);
  const { resolve, reject } = waiting.get(message.id) ?? {};
  if (message.type === 'success') resolve?.(message.result);
  else if (message.type === 'error') reject?.(new Error(`${message.error}: ${message.message}`));
};
let number = 0;
const ask = (method, params = {}) =>
  new Promise((resolve, reject) => {
    number += 1;
    waiting.set(number, { resolve, reject });
    socket.send(JSON.stringify({ id: number, method, params }));
  });

try {
  await ask('session.new', { capabilities: {} });
  await ask('session.subscribe', { events: ['log.entryAdded'] });
  const { contexts } = await ask('browsingContext.getTree');
  const { context } = contexts[0];
  await ask('browsingContext.setViewport', { context, viewport: { width: 1440, height: 900 } });
  const value = async (expression) =>
    (await ask('script.evaluate', { expression, target: { context }, awaitPromise: true })).result.value;
  const host = await fetch(`${url}/api/v1/hosts`)
    .then((answer) => answer.json())
    .then(({ hosts }) => hosts[0].id);
  const views = [
    ['fleet', '/', "document.querySelectorAll('[role=row], tbody tr').length > 0"],
    [
      'host',
      `/host/${host}`,
      "document.querySelectorAll('[role=treegrid] [role=rowgroup] [role=row]').length > 3" +
        " && document.querySelector('.plot canvas') !== null",
    ],
    [
      'history',
      `/host/${host}/history`,
      "document.querySelectorAll('[role=treegrid] [role=rowgroup] [role=row]').length > 3",
    ],
    ['landscape', `/host/${host}/landscape?as=heatmap`, "document.querySelector('[role=application]') !== null"],
    ['export', `/host/${host}/export`, "document.querySelectorAll('input[type=radio]').length > 2"],
  ];
  for (const [name, path, holds] of views) {
    await ask('browsingContext.navigate', { context, url: url + path, wait: 'complete' });
    const until = Date.now() + 20_000;
    while (!(await value(holds))) {
      if (Date.now() > until)
        throw new Error(`${name}: nothing to see; ${await value('document.body.innerText.slice(-600)')}`);
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
    const wide = await value('document.documentElement.scrollWidth - innerWidth');
    if (wide > 0) throw new Error(`${name}: ${wide} px wider than the window`);
    if (picture && name === 'host') {
      await new Promise((resolve) => setTimeout(resolve, 3_000));
      writeFileSync(picture, Buffer.from((await ask('browsingContext.captureScreenshot', { context })).data, 'base64'));
    }
    console.log(`${name}: as it should be`);
  }
  if (complaints.length > 0) throw new Error(`Firefox complains: ${complaints.join('; ')}`);
  console.log(`${(await value('navigator.userAgent')).split(' ').at(-1)}: no complaints`);
} catch (error) {
  console.error(`firefox: ${error.message}`);
  process.exitCode = 1;
} finally {
  socket.close();
  firefox.removeAllListeners('exit');
  firefox.kill('SIGTERM');
  await new Promise((resolve) => firefox.on('exit', resolve));
  rmSync(profile, { recursive: true, force: true });
}
