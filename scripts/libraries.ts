/** The library entry points of the package, which package.json exports: their JavaScript and type declarations. */
import { build } from "esbuild"
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { Schema } from "effect"
import { libraryOptions } from "./bundle.js"

const root = fileURLToPath(new URL("..", import.meta.url))
const names = Schema.Record(Schema.String, Schema.String)
const Module = Schema.Struct({
  "@countersign/source": Schema.String,
  types: Schema.String,
  default: Schema.String
})
const Manifest = Schema.Struct({
  exports: Schema.Record(Schema.String, Schema.Union([Module, Schema.String])),
  dependencies: names,
  optionalDependencies: names,
  peerDependencies: names
})
const manifest = Schema.decodeUnknownSync(Schema.fromJsonString(Manifest))(
  readFileSync(path.join(root, "package.json"), "utf8")
)

/** The exported modules with the files that a build writes for each; package.json itself is exported too. */
export const modules = Object.entries(manifest.exports).flatMap(([name, exported]) =>
  typeof exported === "string"
    ? []
    : [
        {
          name,
          source: exported["@countersign/source"],
          types: exported.types,
          built: [exported.default, exported.types]
        }
      ]
)

/** npm packages that the package installs. */
export const dependencies = [
  ...Object.keys(manifest.dependencies),
  ...Object.keys(manifest.optionalDependencies)
]

/** Entry points by name, such as `api`, with their sources. */
const entries = Object.fromEntries(
  modules.map(({ name, source }) => {
    const file = path.join(root, source)
    if (!existsSync(file)) throw new Error(`package.json exports ${name}, but ${file} is missing`)
    return [path.basename(name), file]
  })
)

/** Builds the libraries into a `dist` directory. npm dependencies stay external. `check: false` if the types have been checked before. */
export const buildLibraries = async (dist: string, { check = true } = {}) => {
  const tsc = path.join(root, "node_modules", "typescript", "bin", "tsc")
  const args = [
    tsc,
    "-p",
    "tsconfig.build.json",
    "--outDir",
    path.join(dist, "types"),
    ...(check ? [] : ["--noCheck"])
  ]
  const types = spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" })
  if (types.status !== 0) throw new Error("type check failed")

  return build({
    ...libraryOptions(entries),
    metafile: true,
    outdir: dist,
    external: [...dependencies, ...Object.keys(manifest.peerDependencies)]
  })
}
