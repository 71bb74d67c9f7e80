// Arithmetic without `eval`. In: text such as `width * 1.0 / 2`. Out: a function of width, height and dpr. Why: ECharts GL
// sizes its textures so, and the page's security policy forbids code made from text.

type Size = (width: number, height: number, dpr: number) => number;

/** Numbers and the three names with `*` and `/` between them, or a list of those in brackets; anything else is an error. */
export function expression(text: string): Size | ((...size: Parameters<Size>) => number[]) {
  const list = /^\s*\[(.*)\]\s*$/.exec(text)?.[1];
  const sizes = (list ?? text).split(',').map((part): Size => {
    const [first = '', ...more] = part.trim().split(/\s*([*/])\s*/);
    return (...size) =>
      more.reduce(
        (left, word, nth) => {
          if (nth % 2 === 0) return left;
          return more[nth - 1] === '*' ? left * valueOf(word, size) : left / valueOf(word, size);
        },
        valueOf(first, size),
      );
  });
  // An error shows at once, and not when the first picture is drawn.
  for (const size of sizes) size(1, 1, 1);
  return list === undefined ? sizes[0]! : (...size) => sizes.map((of) => of(...size));
}

function valueOf(word: string, [width, height, dpr]: Parameters<Size>): number {
  if (/^\d+(?:\.\d+)?$/.test(word)) return Number(word);
  const named: Readonly<Record<string, number>> = { width, height, dpr };
  if (!Object.hasOwn(named, word)) throw new Error(`not an expression: ${word}`);
  return named[word]!;
}
