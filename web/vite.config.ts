// How the page is built. In: src/. Out: dist/, files with a hash in their name, which the receiver embeds.
// `npm run dev` serves from disk with reload and passes /api on to a receiver (CPUMON_URL, default http://127.0.0.1:3080).
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { svelteTesting } from '@testing-library/svelte/vite';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

/** ECharts GL sizes its textures with a handful of expressions, which its WebGL library compiles with `new Function`. The page's
 * policy forbids that, rightly; a small evaluator takes its place. The build fails if the library no longer has that line. */
function withoutEval(): Plugin {
  const line = /new Function\('width', 'height', 'dpr', 'return ' \+ exprRes\[1\]\)/;
  return {
    name: 'without-eval',
    transform(code, id) {
      if (!id.includes('claygl/src/createCompositor.js')) return null;
      if (!line.test(code))
        throw new Error('claygl: createCompositor.js has changed; check how it evaluates expressions');
      const from = fileURLToPath(new URL('./src/lib/expression.ts', import.meta.url));
      return {
        code: `import { expression } from ${JSON.stringify(from)};\n${code.replace(line, 'expression(exprRes[1])')}`,
        map: null,
      };
    },
  };
}

/** uPlot is one function with all that it can do. Its legend, its scales that are not linear and its other ways to draw a line are
 * never used here: they are a fifth of it. The build fails if the library no longer has those lines. */
function withoutUnusedPlots(): Plugin {
  const cuts: readonly [RegExp, string][] = [
    [/const showLegend = legend\.show;/g, 'const showLegend = false;'],
    [/\b(?:mode == 2|(?:\w+\.)?(?:distr|xScaleDistr) (?:== +(?:2|3|4|100)|>= 3))\b/g, 'false'],
    [/^uPlot\.(?:assign|fmtNum|range\w+|orient|pxRatio)\s*= .*$/gm, ''],
    [/^\t(?:uPlot\.(?:join|fmtDate|addGap|clipGaps)|\(paths\.\w+)\s*= .*$/gm, ''],
  ];
  return {
    name: 'without-unused-plots',
    transform(code, id) {
      if (!id.includes('uplot/dist/uPlot.esm.js')) return null;
      for (const [found] of cuts) if (code.search(found) < 0) throw new Error(`uPlot has changed: ${found.source}`);
      return { code: cuts.reduce((left, [found, to]) => left.replaceAll(found, to), code), map: null };
    },
  };
}

/** The worker has the table of columns for their ids, sources and formats. Titles, help and widths are read by the page alone, and are
 * most of it. The build fails if the table is written otherwise. */
function withoutTitles(): Plugin {
  const line = /^ {4}(?:title|align|help|layout): .*,\n/gm;
  return {
    name: 'without-titles',
    enforce: 'pre',
    transform(code, id) {
      if (!id.includes('/feed/columns.generated.ts')) return null;
      const left = code.replace(line, '');
      if (left === code)
        throw new Error('columns.generated.ts has no line with a title alone; check what the worker has');
      return { code: left, map: null };
    },
  };
}

/** Colours stand in one table, from which the receiver draws too: `--charts-json` in app.css becomes a variable for each. */
function colors(): Plugin {
  const mark = '--charts-json: 1;';
  const table = fileURLToPath(new URL('./src/charts.json', import.meta.url));
  return {
    name: 'colors',
    enforce: 'pre',
    transform(code, id) {
      if (!id.endsWith('/src/app.css')) return null;
      if (!code.includes(mark)) throw new Error(`app.css: ${mark} is missing`);
      this.addWatchFile(table);
      const { colors } = JSON.parse(readFileSync(table, 'utf8')) as { colors: Record<string, [string, string]> };
      return {
        code: code.replace(
          mark,
          Object.entries(colors)
            .map(([name, [light, dark]]) => `--${name}: light-dark(${light}, ${dark});`)
            .join(' '),
        ),
        map: null,
      };
    },
  };
}

/** What each view needs, in one file: together it compresses better than as a file for each set of views that share a module. A group
 * takes what its modules import, too: what dialogs and views share must be here, or each view loads all dialogs. */
const BASE = [
  /node_modules\/(svelte|esm-env|clsx)\/|vite\/preload/,
  /\/src\/(feed\/|parts\/(StateNotice|AmbiguousHost|Choice|DataTable|Lazy|Search)\b)/,
  /\/src\/lib\/(api|charts|clipboard|colors|display|format|keys|latest-answer|modes|receiver\.svelte|route|session|span|table|why)\b/,
];
/** Dialogs, and what views of the past share: each is too small for a file of its own. */
const DIALOGS = /\/src\/(parts\/(\w*Dialog|FirstStart|Help)\.svelte|lib\/(found|receiver-address)\.ts)/;
const PAST = [
  /\/src\/parts\/(RangeBar|MeanOrPeak|NoAnswer|hatch)\b/,
  /\/src\/lib\/(chart-plot|moments|range|report|round-ticks|shares)\b/,
];
/** *Export* shares it with dialogs, and would load all of them with it. */
const COMMAND = /\/src\/parts\/Command\.svelte/;

const receiver = process.env['CPUMON_URL'] ?? 'http://127.0.0.1:3080';

export default defineConfig({
  plugins: [svelte(), svelteTesting(), withoutEval(), withoutUnusedPlots(), colors()],
  build: {
    target: 'es2023',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
    // All styles in one file are a third smaller than as one for each view.
    cssCodeSplit: false,
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: 'base', test: (id) => BASE.some((one) => one.test(id)) },
            { name: 'past', test: (id) => PAST.some((one) => one.test(id)) },
            { name: 'command', test: COMMAND },
            { name: 'dialogs', test: DIALOGS },
          ],
        },
      },
    },
  },
  worker: { format: 'es', plugins: () => [withoutTitles()] },
  server: { host: '127.0.0.1', proxy: { '/api': { target: receiver, changeOrigin: true } } },
  test: {
    include: ['src/**/*.test.ts', 'tests/*.test.ts'],
    setupFiles: ['tests/jsdom.ts'],
    // What is tested is what happens, not when: a machine that builds elsewhere is slow.
    testTimeout: 60_000,
    // Its own choice leaves one of two CPUs unused.
    maxWorkers: availableParallelism(),
  },
});
