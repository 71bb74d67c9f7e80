// The rows of a grid in the document. In: the texts of the rows in sight. Out: elements, changed only where a text changed. Why: forty
// rows of fifteen cells change each second; writing only the differences costs half of a component per cell.
import type { GridColumn } from '../feed/columns';
import type { RowText } from './grid-cells';

/** How rows are shown apart from their texts. */
export interface RowStyle {
  columns: readonly GridColumn[];
  selected: string;
  marked: readonly string[];
}

interface Cell {
  element: HTMLElement;
  text: Text;
  isDim: boolean;
}

interface NameCell extends Cell {
  toggle: HTMLElement;
  beside: HTMLElement;
  why: HTMLElement;
  mark: HTMLElement;
  plotted: HTMLElement;
}

interface Row {
  element: HTMLElement;
  cells: Cell[];
  name: NameCell | null;
  /** The rows on screen; null: none yet. */
  shown: RowText | null;
  share: number;
}

function make(tag: string, className: string, role?: string): HTMLElement {
  const element = document.createElement(tag);
  element.className = className;
  if (role) element.setAttribute('role', role);
  return element;
}

function textIn(element: HTMLElement): Text {
  return element.appendChild(document.createTextNode(''));
}

export class GridRows {
  private rows: Row[] = [];
  private columns: readonly GridColumn[] = [];
  private built = '';

  constructor(private readonly into: HTMLElement) {}

  show(texts: readonly RowText[], style: RowStyle): void {
    const wanted = style.columns.map((column) => column.id).join();
    if (wanted !== this.built) this.clear();
    this.built = wanted;
    this.columns = style.columns;
    while (this.rows.length > texts.length) this.rows.pop()?.element.remove();
    while (this.rows.length < texts.length) this.rows.push(this.append());
    texts.forEach((text, nth) => write(this.rows[nth]!, text, style));
  }

  /** The row that an event happened in, and whether on one of its buttons. */
  at(target: EventTarget | null): { row: RowText; isToggle: boolean; isWhy: boolean } | null {
    const element = target instanceof Element ? target : null;
    const row = this.rows.find((row) => row.element.contains(element))?.shown;
    const isOn = (button: string): boolean => element !== null && element.closest(button) !== null;
    return row ? { row, isToggle: isOn('.toggle') && row.isOpen !== null, isWhy: isOn('.why') } : null;
  }

  /** A text that is cut off, or has more behind it, gets a tooltip under the pointer; only there. */
  explain(target: EventTarget | null): void {
    const cell = target instanceof HTMLElement ? target.closest<HTMLElement>('.label, .beside, .cell.text') : null;
    if (!cell) return;
    const row = this.rows.find(({ element }) => element.contains(cell));
    const at = row?.cells.findIndex(({ element }) => element === cell) ?? -1;
    cell.title = row?.shown?.cells[at]?.more ?? (cell.scrollWidth > cell.clientWidth ? (cell.textContent ?? '') : '');
  }

  private clear(): void {
    this.rows = [];
    this.into.replaceChildren();
  }

  private append(): Row {
    const element = make('div', 'row', 'row');
    const row: Row = { element, cells: [], name: null, shown: null, share: 0 };
    for (const column of this.columns) {
      if (column.id === 'name') {
        row.name = nameCell();
        row.cells.push(row.name);
      } else {
        const cell = make(
          'div',
          `cell ${column.format === 'text' ? 'text' : 'num'}${column.id === 'cpu' ? ' cpu' : ''}`,
          'gridcell',
        );
        row.cells.push({ element: cell, text: textIn(cell), isDim: false });
      }
      element.append(row.cells.at(-1)!.element);
    }
    this.into.append(element);
    return row;
  }
}

function nameCell(): NameCell {
  const element = make('div', 'cell name', 'gridcell');
  const toggle = make('span', 'toggle');
  const label = make('span', 'label cut');
  const beside = make('span', 'beside cut');
  const why = make('span', 'why');
  why.title = 'why it is slow, and who makes it so (y)';
  const mark = make('span', 'mark');
  const plotted = make('span', 'plotted');
  plotted.title = 'in the plot';
  element.append(toggle, label, beside, why, mark, plotted);
  return { element, text: textIn(label), isDim: false, toggle, beside, why, mark, plotted };
}

function write(row: Row, text: RowText, style: RowStyle): void {
  const { element, shown } = row;
  if (shown?.at !== text.at) {
    element.id = `row-${text.at}`;
    element.setAttribute('aria-rowindex', String(text.at + 2));
  }
  if (shown?.depth !== text.depth) element.setAttribute('aria-level', String(text.depth + 1));
  const isSelected = text.key === style.selected ? 'true' : 'false';
  if (element.getAttribute('aria-selected') !== isSelected) element.setAttribute('aria-selected', isSelected);
  if (shown?.isThread !== text.isThread) element.classList.toggle('thread', text.isThread);
  if (shown?.isGroup !== text.isGroup) element.classList.toggle('link', !text.isGroup);
  if (shown?.ended !== text.ended) element.classList.toggle('ended', text.ended);
  if (row.name) writeName(row.name, row, text, style);
  text.cells.forEach((cell, nth) => {
    const place = row.cells[nth];
    if (!place) return;
    if (place.text.data !== cell.text) place.text.data = cell.text;
    const isDim = place !== row.name && (cell.isNone || cell.isZero);
    if (place.isDim !== isDim) place.element.classList.toggle('none', isDim);
    place.isDim = isDim;
    if (style.columns[nth]?.id === 'cpu') bar(row, place.element, text.share);
  });
  row.shown = text;
}

/** The bar behind %CPU, in whole percent: finer would change the style and show nothing. */
function bar(row: Row, element: HTMLElement, share: number): void {
  const percent = Math.round(share * 100);
  if (row.share !== percent) element.style.backgroundSize = `${percent}% 100%`;
  row.share = percent;
}

function writeName(name: NameCell, { element, shown }: Row, text: RowText, style: RowStyle): void {
  if (shown?.depth !== text.depth) name.element.style.paddingLeft = `${4 + Math.min(text.depth, 12) * 16}px`;
  if (shown === null || shown.isOpen !== text.isOpen) {
    // The row itself says aria-expanded, and the arrow keys open it: for the pointer this is one more place to press.
    name.toggle.textContent = text.isOpen === null ? '' : text.isOpen ? '▾' : '▸';
    name.toggle.classList.toggle('can', text.isOpen !== null);
    if (text.isOpen === null) element.removeAttribute('aria-expanded');
    else element.setAttribute('aria-expanded', String(text.isOpen));
  }
  if (shown?.beside !== text.beside) name.beside.textContent = text.beside;
  if (shown?.mark !== text.mark || shown.markHelp !== text.markHelp) {
    name.mark.textContent = text.mark;
    name.mark.title = text.markHelp;
  }
  // For the pointer; the keyboard has a key.
  const why = text.key === style.selected ? 'Why slow?' : '';
  if (name.why.textContent !== why) name.why.textContent = why;
  const dot = style.marked.includes(text.key) ? '●' : '';
  if (name.plotted.textContent !== dot) name.plotted.textContent = dot;
}
