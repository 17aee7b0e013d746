/**
 * Builds the published package into `dist`: `main.js`, the command (with Effect bundled in, which more than halves the time to the first
 * response); the library entry points that package.json exports, with npm dependencies external; their type declarations; the console; the
 * software bill of materials, `sbom.cdx.json`.
 *
 * `@effect/platform-node` is bundled into both: as a dependency it would install a Redis client that nothing here uses.
 */
import { build } from "esbuild"
import { existsSync, rmSync, writeFileSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { bundleOptions } from "./bundle.js"
import { filesBelow } from "./freshness.js"
import { buildLibraries, dependencies, modules } from "./libraries.ts"
import { buildConsole, keptModules } from "./package/buildConsole.ts"
import { bundledPackages } from "./package/bundledPackages.ts"
import { readPublishedPackages } from "./package/lockedPackages.ts"
import { makeBom } from "./package/sbom.ts"
import { writePackages } from "./package/writePackages.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const dist = path.join(root, "dist")

const stop = (line: string): never => {
  process.stderr.write(`build: ${line}\n`)
  process.exit(1)
}

const isEffectPackage = (name: string) => name === "effect" || name.startsWith("@effect/")

rmSync(dist, { recursive: true, force: true })
const library = await buildLibraries(dist).catch((error: unknown) =>
  stop(error instanceof Error ? error.message : String(error))
)
const program = await build({
  ...bundleOptions,
  metafile: true,
  outdir: "dist",
  external: dependencies.filter((name) => !isEffectPackage(name))
})

// The service finds the console beside its bundle.
const consoleModules = await buildConsole(path.join(dist, "console"))

for (const { built, name } of modules) {
  for (const file of built) {
    if (!existsSync(path.join(root, file)))
      stop(`package.json exports ${file} for ${name}, but the build did not create it`)
  }
}

const published = readPublishedPackages()
const bundled = bundledPackages(
  [...keptModules(library.metafile), ...keptModules(program.metafile), ...consoleModules],
  published
)
writeFileSync(
  path.join(root, "dist", "sbom.cdx.json"),
  `${JSON.stringify(makeBom(published, bundled), null, 2)}\n`
)

const consoleFiles = filesBelow(path.join(dist, "console")).map((file) => path.relative(dist, file))
const packages = writePackages(path.join(dist, "packages"), {
  dist,
  library: library.metafile,
  program: program.metafile,
  serverFiles: [...consoleFiles, "sbom.cdx.json"]
})
process.stdout.write(
  `build: ${packages.map((folder) => path.relative(root, folder)).join(", ")} can be packed\n`
)
