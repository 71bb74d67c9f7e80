import { vitePreprocess } from '@sveltejs/vite-plugin-svelte';

/** Styles by the class that binds them to their component. */
const styles = new Map();

/** Short: it is written hundreds of times. */
function cssHash({ hash, css }) {
  const name = `s${hash(css).slice(0, 4)}`;
  if ((styles.get(name) ?? css) !== css)
    throw new Error(`two components have the class ${name}: take more of the hash`);
  styles.set(name, css);
  return name;
}

export default { preprocess: vitePreprocess(), compilerOptions: { runes: true, cssHash } };
