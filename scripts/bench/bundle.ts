import { build } from "esbuild"
import { fileURLToPath } from "node:url"
import path from "node:path"

const root = fileURLToPath(new URL("../..", import.meta.url))

/**
 * Output folder, inside the benchmarks' own `node_modules`: from there, their packages and the checkout's packages
 * resolve.
 */
const cache = fileURLToPath(new URL("node_modules/.cache", import.meta.url))

/**
 * Bundles programs as they would be deployed: Effect inside, other npm packages external, as in `scripts/build.ts`. Run from TypeScript
 * sources, each process would also hold the type stripper in memory. Returns a function from a program's name to its file.
 */
export const bundle = async <Name extends string>(
  sources: Readonly<Record<Name, string>>
): Promise<(name: Name) => string> => {
  await build({
    absWorkingDir: root,
    entryPoints: sources,
    outdir: cache,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node22",
    logLevel: "warning",
    plugins: [
      {
        name: "outside",
        setup: (building) => {
          building.onResolve({ filter: /^[^./]/ }, ({ kind, path: name }) =>
            kind === "entry-point" || /^(?:effect|@effect\/[^/]+)(?:\/|$)/.test(name)
              ? undefined
              : { path: name, external: true }
          )
          // It locates the checkout by its own path, and runs setup when it is the entry point: it stays a file of its own.
          building.onResolve({ filter: /\/setup\.js$/ }, ({ path: name, resolveDir }) => ({
            path: path.resolve(resolveDir, name),
            external: true
          }))
        }
      }
    ],
    banner: {
      js: `import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);`
    }
  })
  return (name) => path.join(cache, `${name}.mjs`)
}
