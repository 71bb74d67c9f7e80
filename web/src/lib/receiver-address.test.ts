import { expect, it } from 'vitest';
import { agentLine } from './receiver-address';

it('names an address that reaches the receiver, and says where only this machine does', () => {
  expect(agentLine({ udp: ['127.0.0.1:4001'] }, 'localhost')).toEqual({
    command: 'cpumon-agent --to 127.0.0.1:4001',
    isLocal: true,
  });
  const any = { udp: ['0.0.0.0:3001', '[::]:3001'] };
  expect(agentLine(any, '127.0.0.1')).toEqual({ command: 'cpumon-agent', isLocal: false });
  expect(agentLine(any, 'receiver.example')?.command).toBe('cpumon-agent --to receiver.example:3001');
  expect(agentLine({ udp: ['10.77.0.1:3001'] }, 'localhost')?.command).toBe('cpumon-agent --to 10.77.0.1:3001');
  expect(agentLine({ udp: [] }, 'localhost')).toBeNull();
});
