// An answer to *Why slow?* with all that it can have, for tests: a cause with a culprit of a hostile name, a command, a time before.
import type { Why } from '../src/lib/api';

const SECOND = 1_000_000_000;
const ns = (second: number): string => `${1_767_225_600 + second}000000000`;
const range = (from: number): { since_ns: string; until_ns: string } => ({
  since_ns: ns(from),
  until_ns: ns(from + 60),
});
const state = { ns: SECOND, on: null, count: null, wait: null };

export const ANSWER: Why = {
  host: '07070707070707070707070707070707',
  host_name: 'vm',
  subject: { by: 'process', name: '<b>shop</b>', processes: 1, threads: 2, pid: 7 },
  since_ns: ns(60),
  until_ns: ns(120),
  slow_since_ns: ns(60),
  causes: [
    {
      cause: 'priority',
      share: 0.8,
      sentence: 'It was ready 74 % of the time.',
      evidence: [],
      action: 'Take the real-time priority from <img src=x> (pid 23227).',
      command: 'chrt --other --pid 0 23227',
      culprits: [],
      sure: 'high',
    },
  ],
  summary: [
    'It was ready 74 % of the time and waited for a CPU behind <img src=x> (pid 23227), which has real-time priority 50.',
    'While it runs on a CPU, no normal program runs there.',
  ],
  action: 'Take the real-time priority from <img src=x> (pid 23227).',
  time: {
    range: range(60),
    measured_ns: 60 * SECOND,
    total_ns: 60 * SECOND,
    states: [
      { ...state, state: 'ran', share: 0.21, before: 0.78, label: 'ran', note: '' },
      { ...state, state: 'ready', share: 0.742, before: 0.19, label: 'ready', note: 'mostly behind <img src=x>' },
      {
        ...state,
        state: 'asleep',
        share: 0.006,
        before: 0.03,
        label: 'asleep: sleep (clock_nanosleep)',
        note: 'by itself',
      },
    ],
  },
  before: { range: range(0), measured_ns: 60 * SECOND, total_ns: 60 * SECOND, states: [] },
  sure: {
    level: 'high',
    rests_on: ['60 intervals of 1.0 s each'],
    not_measured: ['page faults'],
    sentences: ['High. It rests on 60 intervals of 1.0 s each.', 'Not measured: page faults.'],
  },
  more: ['cpumon top --at 2026-01-01T00:01:30Z', 'cpumon trace record --for 5s -o why.trace'],
};
