// Where agents send to. In: the addresses that the receiver listens on, and that of the page. Out: lines to enter on a device.

interface Listening {
  udp: readonly string[];
  tls?: string | null | undefined;
}

const portOf = (address: string): string => address.slice(address.lastIndexOf(':') + 1);
const hostOf = (address: string): string => address.slice(0, address.lastIndexOf(':'));
const isLoopback = (host: string): boolean => /^(127\.|\[::1\]$|localhost$)/.test(host);
const isAny = (host: string): boolean => host === '0.0.0.0' || host === '[::]';

export interface AgentLine {
  /** The command for the device. */
  command: string;
  /** Whether it reaches the receiver from this machine only. */
  isLocal: boolean;
}

/** `page`: the host of the page's own address, by which other machines reach the receiver unless it is loopback. */
export function agentLine({ udp }: Listening, page: string): AgentLine | null {
  const open = udp.find((address) => !isLoopback(hostOf(address)));
  if (open === undefined) {
    const [first] = udp;
    return first === undefined ? null : { command: `cpumon-agent --to ${first}`, isLocal: true };
  }
  // A receiver on every address is found by broadcast: the agent needs none.
  if (isAny(hostOf(open)) && isLoopback(page)) return { command: 'cpumon-agent', isLocal: false };
  const host = isAny(hostOf(open)) ? page : hostOf(open);
  return { command: `cpumon-agent --to ${host}:${portOf(open)}`, isLocal: false };
}
