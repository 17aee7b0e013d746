/**
 * Builds the published package into `dist`: `main.js`, the command (with Effect bundled in, which more than halves the time to the first
 * response); the library entry points that package.json exports, with npm dependencies external; their type declarations; the console; the
 * software bill of materials, `sbom.cdx.json`.
 *
 * `@effect/platform-node` is bundled into both: as a dependency it would install a Redis client that nothing here uses.
 */
import { build, type Metafile } from "esbuild"
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { Schema } from "effect"
import { build as buildPage } from "vite"
import { bundleOptions, libraryOptions } from "./bundle.js"
import { bundledPackages } from "./package/bundledPackages.ts"
import { readPublishedPackages } from "./package/lockedPackages.ts"
import { makeBom } from "./package/sbom.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const names = Schema.Record(Schema.String, Schema.String)
const Module = Schema.Struct({ types: Schema.String, default: Schema.String })
const Manifest = Schema.Struct({
  exports: Schema.Record(Schema.String, Schema.Union([Module, Schema.String])),
  dependencies: names,
  optionalDependencies: names,
  peerDependencies: names
})
const manifest = Schema.decodeUnknownSync(Schema.fromJsonString(Manifest))(
  readFileSync(path.join(root, "package.json"), "utf8")
)

const stop = (line: string): never => {
  process.stderr.write(`build: ${line}\n`)
  process.exit(1)
}

/** The exported modules; package.json itself is exported too. */
const modules = Object.entries(manifest.exports).flatMap(([name, exported]) =>
  typeof exported === "string" ? [] : [{ name, built: [exported.default, exported.types] }]
)

/** Entry points by name, such as `api`, with their sources. */
const entries = Object.fromEntries(
  modules.map(({ name }) => {
    const source = path.join(root, "src", name, "index.ts")
    return existsSync(source)
      ? [path.basename(name), source]
      : stop(`package.json exports ${name}, but ${source} is missing`)
  })
)

const dependencies = [...Object.keys(manifest.dependencies), ...Object.keys(manifest.optionalDependencies)]
const isEffectPackage = (name: string) => name === "effect" || name.startsWith("@effect/")

rmSync(path.join(root, "dist"), { recursive: true, force: true })
const tsc = path.join(root, "node_modules", "typescript", "bin", "tsc")
const types = spawnSync(process.execPath, [tsc, "-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" })
if (types.status !== 0) stop("type check failed")

const library = await build({
  ...libraryOptions(entries),
  metafile: true,
  outdir: "dist",
  external: [...dependencies, ...Object.keys(manifest.peerDependencies)]
})
const program = await build({
  ...bundleOptions,
  metafile: true,
  outdir: "dist",
  external: dependencies.filter((name) => !isEffectPackage(name))
})

/** The modules in the console's bundle. */
const consoleModules = new Set<string>()

// The service finds the console beside its bundle.
await buildPage({
  plugins: [
    {
      name: "countersign:modules",
      generateBundle: (_options, bundle) => {
        for (const chunk of Object.values(bundle))
          if (chunk.type === "chunk")
            for (const [id, { renderedLength }] of Object.entries(chunk.modules))
              if (renderedLength > 0) consoleModules.add(id)
      }
    }
  ],
  configFile: path.join(root, "scripts", "console.config.ts"),
  logLevel: "warn",
  build: { outDir: path.join(root, "dist", "console") }
})

for (const { built, name } of modules) {
  for (const file of built) {
    if (!existsSync(path.join(root, file)))
      stop(`package.json exports ${file} for ${name}, but the build did not create it`)
  }
}

/** The modules of which a build has kept something. */
const keptModules = ({ outputs }: Metafile) =>
  Object.values(outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([file, { bytesInOutput }]) => (bytesInOutput > 0 ? [file] : []))
  )

const published = readPublishedPackages()
const bundled = bundledPackages(
  [...keptModules(library.metafile), ...keptModules(program.metafile), ...consoleModules],
  published
)
writeFileSync(
  path.join(root, "dist", "sbom.cdx.json"),
  `${JSON.stringify(makeBom(published, bundled), null, 2)}\n`
)

process.stdout.write("build: dist has every export of package.json\n")
