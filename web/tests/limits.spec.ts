// A control group whose quota is used up, made on this machine: History, the page of its process and the accounts of the host.
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findsNothing } from './axe';
import { expect, test } from './receiver';

/** A group with a twentieth of a CPU and a busy shell in it. */
class Throttled {
  readonly name = `cpumon-page-${process.pid}`;
  private readonly dir: string;
  private readonly shell: ChildProcess;

  constructor(root: string) {
    const isV2 = existsSync(join(root, 'cgroup.subtree_control'));
    this.dir = join(root, this.name);
    mkdirSync(this.dir);
    if (isV2) writeFileSync(join(this.dir, 'cpu.max'), '5000 100000');
    else writeFileSync(join(this.dir, 'cpu.cfs_quota_us'), '5000');
    this.shell = spawn('bash', ['-c', 'while :; do :; done'], { stdio: 'ignore' });
    writeFileSync(join(this.dir, 'cgroup.procs'), String(this.shell.pid));
  }

  async end(): Promise<void> {
    const ended = new Promise((resolve) => this.shell.on('exit', resolve));
    this.shell.kill('SIGKILL');
    await ended;
    // The kernel takes the process out of its group a moment after its end.
    for (let turn = 1; ; turn += 1) {
      try {
        return rmdirSync(this.dir);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EBUSY' || turn === 6_000) throw error;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  }
}

/** The directory in which groups with quotas are made; empty: none that this user may write to. */
function root(): string {
  if (process.getuid?.() !== 0) return '';
  const v2 = '/sys/fs/cgroup/cgroup.subtree_control';
  if (existsSync(v2) && readFileSync(v2, 'utf8').split(/\s/).includes('cpu')) return '/sys/fs/cgroup';
  return ['/sys/fs/cgroup/cpu', '/sys/fs/cgroup/cpu,cpuacct'].find((path) => existsSync(path)) ?? '';
}

test('a quota that is used up is in the span by cgroup, with its process, and the accounts have the pressure', async ({
  page,
  receiver,
}) => {
  const needs = 'it needs root and a hierarchy of control groups with quotas';
  const place = root();
  test.skip(place === '' && !process.env['CI'], needs);
  expect(place, needs).not.toBe('');
  const group = new Throttled(place);
  try {
    const host = `${receiver.url}/host/${await receiver.local()}`;
    await page.goto(`${host}?accounts=1`);
    await expect(page.getByRole('region', { name: 'accounts and interrupts' })).toContainText(/CPU pressure \d+\.\d %/);
    // The header names it; a click sorts the rows by throttled time.
    const quota = page.getByRole('button', {
      name: new RegExp(`CPU limit reached: ${group.name} in \\d+ % of periods`),
    });
    await expect(quota).toBeVisible();
    await quota.click();
    await expect(page).toHaveURL(/sort=-throttled/);
    const live = page.getByRole('row', { name: /bash/ }).first();
    await expect(live).toContainText('0.05');
    await findsNothing(page);
    await receiver.hasRecordedNow();
    await page.goto(`${host}/history?since=now-1min&until=now&by=cgroup`);
    const table = page.getByRole('tabpanel').getByRole('table');
    await expect(table.getByRole('columnheader', { name: 'CPU limit' })).toBeVisible();
    const row = table.getByRole('row', { name: new RegExp(group.name) });
    await expect(row).toContainText(/0\.05.*\d %/);
    await findsNothing(page);
    // By user there is no limit, so there are no empty columns.
    await page.goto(`${host}/history?since=now-1min&until=now&by=user`);
    await expect(table.getByRole('row').nth(1)).toBeVisible();
    await expect(table.getByRole('columnheader', { name: 'CPU limit' })).toHaveCount(0);
    await page.goto(
      `${host}/history?since=now-1min&until=now&by=process&in=${encodeURIComponent(`cgroup:/${group.name}`)}`,
    );
    await table.getByRole('link', { name: 'bash' }).click();
    const limit = page.getByRole('region', { name: 'CPU limit' });
    await expect(limit).toContainText(/0\.05 CPU throttled .*CPU limit reached in \d+ of \d+ periods/);
    await findsNothing(page);
  } finally {
    await group.end();
  }
});
