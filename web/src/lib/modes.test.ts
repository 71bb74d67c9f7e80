import { expect, it } from 'vitest';
import { LEDGER, MODES, termed } from './modes';

const labels = (parts: readonly { label: string }[]): string => parts.map((part) => part.label).join(' ');

it('has the words of the system that a host runs on', () => {
  expect(labels(termed(MODES, 'nt'))).toBe('user nice system ISR DPC steal');
  expect(labels(termed(LEDGER, 'toolhelp'))).toBe('threads exited ISR DPC steal unattributed idle');
  expect(termed(MODES, 'nt').map((part) => part.name)).toEqual(MODES.map((part) => part.name));
  for (const source of ['bpf', 'procfs', '']) expect(termed(MODES, source)).toBe(MODES);
});
