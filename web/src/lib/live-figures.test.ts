// @vitest-environment jsdom
import { expect, it } from 'vitest';
import { lineColor } from './colors';
import { fullOf, linesOf, titleOf, unitOf, type PlotChoice } from './live-figures';

type Minutes = Parameters<typeof linesOf>[0];
const modes = { user_ns: [50, null, 100], system_ns: [10, null, 0], irq_ns: [0, null, 0], steal_ns: [4, null, 0] };
const queue = { run_queue_mean: [1.5, null, 2], run_queue_max: [4, null, 5] };
const minutes: Minutes = { times: [1, 2, 3], values: { ...modes, ...queue }, tasks: [] };
const choice: PlotChoice = { asQueue: false, percent: 'cpu', cpus: 2, tasks: 0 };
const labels = (from: Minutes, of: PlotChoice) => linesOf(from, of).map((line) => line.label);

it('stacks the modes that occurred; user and system always', () => {
  expect(labels(minutes, choice)).toEqual(expect.arrayContaining(['user', 'system', 'steal']));
  expect(labels(minutes, choice)).not.toContain('irq');
  expect(labels({ ...minutes, values: {} }, choice)).toEqual(['user', 'system']);
});

it('draws the highest interval above the modes: a spike stays when a point becomes a mean', () => {
  const withPeak = { ...minutes, values: { ...modes, peak: [180, null, 100] } };
  const lines = linesOf(withPeak, { ...choice, percent: 'host' });
  expect(lines.at(-1)).toMatchObject({ label: 'peak interval', values: [90, null, 50] });
  expect(lines.at(-1)!.stroke).toBe('dashed');
});

it('divides by the number of CPUs where 100 is the whole host', () => {
  const [user] = linesOf(minutes, { ...choice, percent: 'host' });
  expect(user!.values).toEqual([25, null, 50]);
  expect(linesOf(minutes, { ...choice, percent: 'host', cpus: 0 })[0]!.values).toEqual([50, null, 100]);
});

it('draws chosen tasks beside all CPUs; what is not there has words of its own', () => {
  const tasks = [{ key: '7-1', name: 'web' }];
  const chosen = { ...minutes, values: { ...modes, '7-1': [null, null, 7] }, tasks };
  const [web, all] = linesOf(chosen, { ...choice, tasks: 1 });
  expect(web).toMatchObject({ label: 'web', color: lineColor(0), values: [null, null, 7], absent: 'not running' });
  expect(all).toMatchObject({ label: 'all CPUs', values: [64, null, 100], stroke: 'dashed' });
});

it('draws the run queue in place of CPU use', () => {
  const asQueue = { ...choice, asQueue: true };
  expect(linesOf(minutes, asQueue).map((line) => line.values)).toEqual([
    [1.5, null, 2],
    [4, null, 5],
  ]);
  expect([titleOf(asQueue), unitOf(asQueue, true), unitOf(asQueue, false)]).toEqual([
    'Run queue',
    'tasks running or ready',
    'not measured by this source',
  ]);
});

it('has the CPUs as the end of the axis, unless no CPU is measured', () => {
  const ends = [choice, { ...choice, percent: 'host' as const }, { ...choice, asQueue: true }, { ...choice, cpus: 0 }];
  expect(ends.map(fullOf)).toEqual([200, 100, undefined, undefined]);
  expect(unitOf({ ...choice, cpus: 0 }, false)).toContain('does not measure the CPUs');
  expect([titleOf(choice), titleOf({ ...choice, tasks: 2 })]).toEqual(['All CPUs by mode', 'Selection']);
});
