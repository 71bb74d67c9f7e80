// Whether the help is open. In: the key `?`, the button, a mark that needs an explanation. Out: the same for the frame.

class Help {
  isOpen = $state(false);
  /** Id of the heading to begin at; empty: the top. */
  section = $state('');

  open(section = ''): void {
    this.section = section;
    this.isOpen = true;
  }
}

export const help = new Help();
