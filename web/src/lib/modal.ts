// Opens a dialog as soon as it is in the document. Use: <dialog use:modal>.

/** The first field has the focus; without fields the browser chooses. */
export function modal(dialog: HTMLDialogElement): void {
  dialog.showModal();
  dialog.querySelector('input')?.focus();
}
