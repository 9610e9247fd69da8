// Builds the script and the style of the page: node build.mjs FOLDER
import { build } from "esbuild";

const [folder] = process.argv.slice(2);
if (!folder) {
  console.error("usage: node build.mjs FOLDER");
  process.exit(2);
}
await build({
  entryPoints: { page: new URL("src/main.jsx", import.meta.url).pathname },
  outdir: folder,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "ascii",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
});
