/**
 * Compiles the TypeScript of README.md as a reader's project would: strict, and against the published declarations, which the gate has
 * just written to node_modules/.cache/declarations. A fault is told with its line in README.md.
 */
import { spawnSync } from "node:child_process"
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))
const directory = path.join(root, "node_modules", ".cache", "examples")

/** What the examples take from the reader's own program. */
const readers = "declare const refund: (order: string) => Promise<void>\n"

const tsconfig = {
  compilerOptions: {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    target: "es2024",
    lib: ["es2024", "esnext.disposable", "dom", "dom.iterable"],
    types: ["node"],
    module: "nodenext",
    moduleDetection: "force",
    paths: { "countersign/*": ["../declarations/*/index.d.ts"] }
  },
  include: ["*.ts"]
}

const readme = readFileSync(path.join(root, "README.md"), "utf8")
const examples = [...readme.matchAll(/^```ts\n(.*?)^```/gms)]

rmSync(directory, { recursive: true, force: true })
mkdirSync(directory, { recursive: true })
writeFileSync(path.join(directory, "tsconfig.json"), JSON.stringify(tsconfig))
writeFileSync(path.join(directory, "package.json"), JSON.stringify({ type: "module" }))
writeFileSync(path.join(directory, "readers.d.ts"), readers)
for (const { 1: code = "", index } of examples) {
  const before = readme.slice(0, index).split("\n").length
  writeFileSync(path.join(directory, `README-${before}.ts`), "\n".repeat(before) + code)
}

console.log(`${examples.length} examples`)
const { error, status } = spawnSync(
  process.execPath,
  [path.join(root, "node_modules", "typescript", "bin", "tsc"), "-p", directory],
  { stdio: "inherit" }
)
process.exitCode = error === undefined && examples.length > 0 ? (status ?? 1) : 1
