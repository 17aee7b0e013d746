/**
 * Compiles every `ts` block of the documents as a reader's project would: strict, and against the published declarations, which the
 * gate writes to node_modules/.cache/declarations before. An error names the document and its line.
 *
 * A block under `<!-- quoted from FILE -->` is not compiled: its text must occur in that file, white space aside.
 */
import { spawnSync } from "node:child_process"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import path from "node:path"
import { modules } from "../libraries.ts"
import { codeBlocks, documents, readDocument, report, root } from "./markdown.ts"

const directory = path.join(root, "node_modules", ".cache", "examples")

/** Names that the examples take from the reader's own program. */
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
    paths: Object.fromEntries(
      modules.map(({ name, types }) => [
        path.posix.join("countersign", name),
        [types.replace("./dist/types/", "../declarations/")]
      ])
    )
  },
  include: ["*.ts"]
}

/** Languages of code blocks that would not be compiled. */
const OTHER_SCRIPTS = new Set(["javascript", "js", "jsx", "tsx", "typescript"])

const withoutSpace = (text: string): string => text.replaceAll(/\s+/g, "")

const faults: Array<string> = []
let compiled = 0
rmSync(directory, { recursive: true, force: true })
mkdirSync(directory, { recursive: true })
writeFileSync(path.join(directory, "tsconfig.json"), JSON.stringify(tsconfig))
writeFileSync(path.join(directory, "package.json"), JSON.stringify({ type: "module" }))
writeFileSync(path.join(directory, "readers.d.ts"), readers)
for (const { code, directive, document, language, line } of documents().flatMap(codeBlocks)) {
  if (OTHER_SCRIPTS.has(language))
    faults.push(`${document}:${line}: write \`ts\`; only such blocks are compiled`)
  if (language !== "ts") continue
  const source = /^quoted from (\S+)$/.exec(directive ?? "")?.[1]
  if (source === undefined) {
    compiled++
    const name = `${document.replaceAll("/", "-").replace(/\.md$/, "")}-${line}.ts`
    writeFileSync(path.join(directory, name), "\n".repeat(line) + code)
  } else if (!withoutSpace(readDocument(source)).includes(withoutSpace(code))) {
    faults.push(`${document}:${line}: ${source} does not contain this code`)
  }
}

const { error, status } = spawnSync(
  process.execPath,
  [path.join(root, "node_modules", "typescript", "bin", "tsc"), "-p", directory],
  { stdio: "inherit" }
)
if (error !== undefined || status !== 0) faults.push("TypeScript in the documents does not compile")
if (compiled === 0) faults.push("No TypeScript was found in the documents")
report(faults, `${compiled} TypeScript blocks`)
