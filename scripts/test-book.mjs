// Does a search in the book find the page about a word first? In: target/book. Out: the first hit of each word; exit status 1 if it
// is another page. It searches as the book's own searcher.js does: same library, same index, same options.
import { readFileSync, readdirSync } from 'node:fs';
import { createContext, runInContext } from 'node:vm';

const WORDS = {
  throttled: 'index.html#which-container-is-throttled',
  'short-lived': 'index.html#where-are-short-lived-processes',
  steal: 'index.html#does-the-hypervisor-take-cpu-time-steal',
  pod: 'index.html#when-did-a-pod-run',
  spike: 'index.html#what-was-that-spike',
  slow: 'why.html#why-is-it-slow',
  doctor: 'commands.html#cpumon-doctor',
  windows: 'windows.html#windows',
  discovery: 'discovery.html#discovery',
  spool: 'spool-format.html#spool-format',
  pressure: 'limits.html#cpu-limits-and-pressure',
};

const book = new URL('../target/book/', import.meta.url);
const context = createContext({ window: { search: {} } });
for (const part of ['elasticlunr', 'searchindex']) {
  const name = readdirSync(book).find((file) => file.startsWith(part) && file.endsWith('.js'));
  runInContext(readFileSync(new URL(name, book), 'utf8'), context);
}
const { elasticlunr, window } = context;
const { doc_urls: urls, index, search_options: options } = window.search;
const search = elasticlunr.Index.load(index);

let wrong = 0;
for (const [word, page] of Object.entries(WORDS)) {
  const hits = search.search(word, options).map(({ ref }) => urls[ref]);
  const found = hits[0] === page;
  wrong += found ? 0 : 1;
  const rank = found ? '' : `, not ${page}, which is number ${hits.indexOf(page) + 1}`;
  console.log(`${found ? 'ok   ' : 'wrong'} ${word}: ${hits[0] ?? 'nothing'}${rank}`);
}
process.exit(wrong ? 1 : 0);
