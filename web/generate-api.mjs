// Writes src/lib/api.generated.ts from the schemas of openapi.json. Run: npm run generate; with --check it only compares.
// Paths are left out: the page builds its addresses itself, and operation ids occur more than once in the document.
import { readFileSync, writeFileSync } from 'node:fs';
import openapi, { astToString } from 'openapi-typescript';

const target = new URL('./src/lib/api.generated.ts', import.meta.url);
const source = process.env.OPENAPI ?? new URL('./openapi.json', import.meta.url);
const document = { ...JSON.parse(readFileSync(source, 'utf8')), paths: {} };
const types = astToString(
  await openapi(document, { rootTypes: true, rootTypesNoSchemaPrefix: true, rootTypesKeepCasing: true }),
);
const text = `// Written by \`npm run generate\` from openapi.json. Do not edit.\n\n${types}`;
if (!process.argv.includes('--check')) writeFileSync(target, text);
else if (readFileSync(target, 'utf8') !== text) {
  console.error('src/lib/api.generated.ts differs from openapi.json: run npm run generate in web/');
  process.exit(1);
}
