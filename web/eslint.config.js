// Lint rules of the page: bugs and habits; the form of the text is prettier's.
import js from '@eslint/js';
import svelte from 'eslint-plugin-svelte';
import globals from 'globals';
import ts from 'typescript-eslint';
import svelteConfig from './svelte.config.js';

export default ts.config(
  { ignores: ['dist/', 'node_modules/', 'test-results/', '**/*.generated.ts'] },
  js.configs.recommended,
  ts.configs.recommended,
  svelte.configs.recommended,
  {
    languageOptions: { globals: { ...globals.browser, ...globals.worker } },
    rules: {
      'no-undef': 'off', // TypeScript finds them, types included.
      'no-empty-pattern': ['error', { allowObjectPatternsAsParameters: true }], // Playwright's fixtures without dependencies.
      eqeqeq: 'error',
      'prefer-const': ['error', { destructuring: 'all' }],
      'svelte/prefer-svelte-reactivity': 'off', // Maps and sets are local or replaced as a whole, never watched.
      '@typescript-eslint/explicit-module-boundary-types': 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-non-null-assertion': 'off', // `noUncheckedIndexedAccess` asks for them in loops over columns.
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
    },
  },
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: { parserOptions: { extraFileExtensions: ['.svelte'], parser: ts.parser, svelteConfig } },
  },
  {
    files: ['bench/**', '*.js', '*.ts'],
    languageOptions: { globals: globals.node },
    rules: { '@typescript-eslint/explicit-module-boundary-types': 'off' },
  },
);
