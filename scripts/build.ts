/**
 * Makes what is published: `dist/main.js` to run (Effect bundled in, which more than halves the time to the first
 * answer), the library entries that package.json exports, with every npm dependency left to the installer, their types, and the
 * console's page.
 */
import { build } from "esbuild"
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync, rmSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { Schema } from "effect"
import { build as buildPage } from "vite"

const root = fileURLToPath(new URL("..", import.meta.url))
const names = Schema.Record(Schema.String, Schema.String)
const Manifest = Schema.Struct({
  exports: Schema.Record(Schema.String, Schema.Struct({ types: Schema.String, default: Schema.String })),
  dependencies: names,
  optionalDependencies: names
})
const manifest = Schema.decodeUnknownSync(Schema.fromJsonString(Manifest))(
  readFileSync(path.join(root, "package.json"), "utf8")
)

const stop = (line: string): never => {
  process.stderr.write(`build: ${line}\n`)
  process.exit(1)
}

/** `./api` → its source. */
const entries = Object.fromEntries(
  Object.keys(manifest.exports).map((name) => {
    const source = path.join(root, "src", name, "index.ts")
    return existsSync(source)
      ? [path.basename(name), source]
      : stop(`package.json exports ${name}, and ${source} is missing`)
  })
)

const dependencies = [...Object.keys(manifest.dependencies), ...Object.keys(manifest.optionalDependencies)]
const ofEffect = (name: string) => name === "effect" || name.startsWith("@effect/")

const common = {
  absWorkingDir: root,
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node22",
  outdir: "dist",
  logLevel: "warning"
} as const

rmSync(path.join(root, "dist"), { recursive: true, force: true })
const tsc = path.join(root, "node_modules", "typescript", "bin", "tsc")
const types = spawnSync(process.execPath, [tsc, "-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" })
if (types.status !== 0) stop("the types do not check")

// One build with shared chunks: a class that two entries export is the same class in both.
await build({
  ...common,
  entryPoints: entries,
  splitting: true,
  chunkNames: "chunks/[name]-[hash]",
  packages: "external"
})
await build({
  ...common,
  entryPoints: {
    main: path.join(root, "src", "main.ts"),
    // A process of its own, which the demo starts.
    "demo-receiver": path.join(root, "src", "cli", "demo", "receiver.ts")
  },
  external: dependencies.filter((name) => !ofEffect(name)),
  // What stays outside but is CommonJS, and is required by something bundled.
  banner: {
    js: `import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);`
  }
})

// The console's page, which the service finds beside its bundle.
await buildPage({
  configFile: path.join(root, "scripts", "console.config.ts"),
  logLevel: "warn",
  build: { outDir: path.join(root, "dist", "console") }
})

for (const [name, { default: file, types: declarations }] of Object.entries(manifest.exports)) {
  for (const made of [file, declarations]) {
    if (!existsSync(path.join(root, made)))
      stop(`package.json exports ${made} for ${name}, and it was not made`)
  }
}
process.stdout.write("build: dist is what package.json exports\n")
