// Which rows of a long list are in the document, so that a thousand rows cost no more than those on screen. In: where it is scrolled to.
// Out: the first row and how many; where to scroll so that a row is in sight.

/** The first row in the document, and the row behind the last; `around`: rows made above and below those in sight. */
export function rowsInSight(top: number, height: number, rowHeight: number, around = 5): [first: number, end: number] {
  const first = Math.max(0, Math.floor(top / rowHeight) - around);
  return [first, Math.ceil((top + height) / rowHeight) + around];
}

/** Where to scroll so that a row can be seen below the headings; `top` if it can already. */
export function scrolledTo(row: number, top: number, height: number, rowHeight: number, head = rowHeight): number {
  if (row * rowHeight < top) return row * rowHeight;
  return Math.max(top, (row + 1) * rowHeight + head - height);
}

/** On paper: the first rows, as many as a few pages hold, in the columns that a page is wide enough for. */
export const PAPER = { rows: 100, px: 680 } as const;
