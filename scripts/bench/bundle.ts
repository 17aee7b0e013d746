import { build } from "esbuild"
import { fileURLToPath } from "node:url"
import path from "node:path"

const root = fileURLToPath(new URL("../..", import.meta.url))

/** Where programs are bundled to: below the packages that stay outside, so that they are found. */
const cache = path.join(root, "node_modules", ".cache", "countersign-bench")

/**
 * Programs as they would be deployed: bundled, with Effect inside and what else is of npm outside, as `scripts/build.ts` makes the
 * service. Run from its sources each would carry the compiler of their types in its memory. Answers with the files, by name.
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
        name: "npm-outside",
        setup: (building) =>
          building.onResolve({ filter: /^[^./]/ }, ({ kind, path: name }) =>
            kind === "entry-point" || /^(?:effect|@effect\/[^/]+)(?:\/|$)/.test(name)
              ? undefined
              : { path: name, external: true }
          )
      }
    ],
    banner: {
      js: `import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);`
    }
  })
  return (name) => path.join(cache, `${name}.mjs`)
}
