// Arithmetic without `eval`. In: text such as `width * 1.0 / 2`. Out: a function of width, height and dpr. Why: ECharts GL
// sizes its textures so, and the page's security policy forbids code made from text.

type Size = (width: number, height: number, dpr: number) => number;

/** Numbers, `+ - * /`, parentheses, the three names, and a list of those in brackets; anything else is an error. */
export function expression(text: string): Size | ((width: number, height: number, dpr: number) => number[]) {
  const words = text.match(/[\d.]+|[a-zA-Z_.]+|[-+*/(),[\]]/g) ?? [];
  if (words.join('') !== text.replace(/\s+/g, '')) throw new Error(`not an expression: ${text}`);
  let at = 0;
  const next = (): string | undefined => words[at];
  const take = (): string => words[at++] ?? '';

  function sum(): Size {
    let left = product();
    while (next() === '+' || next() === '-') {
      const [sign, before, right] = [take() === '+' ? 1 : -1, left, product()];
      left = (w, h, d) => before(w, h, d) + sign * right(w, h, d);
    }
    return left;
  }

  function product(): Size {
    let left = value();
    while (next() === '*' || next() === '/') {
      const [isTimes, before, right] = [take() === '*', left, value()];
      left = (w, h, d) => (isTimes ? before(w, h, d) * right(w, h, d) : before(w, h, d) / right(w, h, d));
    }
    return left;
  }

  function value(): Size {
    const word = take();
    if (word === '-') {
      const inner = value();
      return (w, h, d) => -inner(w, h, d);
    }
    if (word === '(') {
      const inner = sum();
      if (take() !== ')') throw new Error(`not an expression: ${text}`);
      return inner;
    }
    if (word === 'width') return (w) => w;
    if (word === 'height') return (_w, h) => h;
    if (word === 'dpr') return (_w, _h, d) => d;
    const number = Number(word);
    if (word === '' || !Number.isFinite(number)) throw new Error(`not an expression: ${text}`);
    return () => number;
  }

  const parts: Size[] = [];
  const isList = next() === '[';
  do {
    if (isList) take();
    parts.push(sum());
  } while (isList && next() === ',');
  if (isList && take() !== ']') throw new Error(`not an expression: ${text}`);
  if (at !== words.length) throw new Error(`not an expression: ${text}`);
  const [only] = parts;
  return isList || !only ? (w, h, d) => parts.map((part) => part(w, h, d)) : only;
}
