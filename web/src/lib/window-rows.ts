// Which rows of a long list are in the document, so that a thousand rows cost no more than those on screen. In: where it is scrolled to.
// Out: the first row and how many; where to scroll so that a row is in sight.

/** Rows made above and below those in sight. */
const AROUND = 5;

/** The first row in the document, and the row behind the last. */
export function rowsInSight(top: number, height: number, rowHeight: number): [first: number, end: number] {
  const first = Math.max(0, Math.floor(top / rowHeight) - AROUND);
  return [first, Math.ceil((top + height) / rowHeight) + AROUND];
}

/** Where to scroll so that a row can be seen below the headings, which take the height of a row; `top` if it can already. */
export function scrolledTo(row: number, top: number, height: number, rowHeight: number): number {
  if (row * rowHeight < top) return row * rowHeight;
  if ((row + 2) * rowHeight > top + height) return (row + 2) * rowHeight - height;
  return top;
}
