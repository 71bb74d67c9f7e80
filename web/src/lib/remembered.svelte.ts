// Settings that this browser keeps. In: a name and a value. Out: the same after the page is opened again. Why: columns,
// unit and colours are the reader's, not the link's; settings in a link come first.

const PREFIX = 'cpumon.';

class Remembered {
  private readonly values = $state<Record<string, string | undefined>>({});

  get(name: string): string | undefined {
    return name in this.values ? this.values[name] : stored(name);
  }

  set(name: string, value: string | undefined): void {
    this.values[name] = value;
    try {
      if (value === undefined) localStorage.removeItem(PREFIX + name);
      else localStorage.setItem(PREFIX + name, value);
    } catch {
      // Without storage it holds until the page is closed.
    }
  }
}

function stored(name: string): string | undefined {
  try {
    return localStorage.getItem(PREFIX + name) ?? undefined;
  } catch {
    return undefined;
  }
}

export const remembered = new Remembered();
