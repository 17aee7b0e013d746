/**
 * Runs every `sh` block of the documents, in order, in one bash, against a service that the documents themselves start. A code block
 * that directly follows an `sh` block is the output that the reader will see, and is compared with the real one (`output.ts`).
 *
 * A comment directly above a block says how it is run:
 *
 * - `<!-- service -->`: the block starts the service. It runs until the next such block, or until the end. The first one, in README.md,
 *   prints the admin key, which replaces `csk_…` in later blocks.
 * - `<!-- background: TEXT -->`: the block runs until the end of its document; the next block waits until it has printed TEXT.
 * - `<!-- not run: REASON -->`: the block needs something that a gate does not have.
 *
 * Ports of the documents (8080, 4000 to 4003, 4318) are replaced by free ones, and the data directory is a temporary one.
 *
 *   node scripts/docs/shell.ts [DOCUMENT...]     all documents, or README.md and those named
 */
import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { freePort } from "../../test/support/freePort.ts"
import { Bash, type BlockResult } from "./Bash.ts"
import { type CodeBlock, codeBlocks, documents, report, root } from "./markdown.ts"
import { containsOutput, isOutput } from "./output.ts"
import { Service } from "./Service.ts"

/** Languages of shell blocks that would not be run. */
const OTHER_SHELLS = new Set(["bash", "console", "shell", "zsh"])

/** How long an output that a background block prints is waited for. */
const BACKGROUND_MILLIS = 60_000

const ports = new Map<string, string>()
for (const port of ["8080", "4000", "4001", "4002", "4003", "4318"]) ports.set(port, String(await freePort()))

/** A block's code as it runs here. */
const here = (code: string, adminKey: string | undefined): string => {
  let text = code
  for (const [port, free] of ports) text = text.replaceAll(new RegExp(String.raw`\b${port}\b`, "g"), free)
  return adminKey === undefined ? text : text.replaceAll("csk_…", adminKey)
}

/** An output as a reader sees it. */
const there = (output: string): string => {
  let text = output.replaceAll(dataDirectory, ".countersign")
  for (const [port, free] of ports) text = text.replaceAll(new RegExp(String.raw`\b${free}\b`, "g"), port)
  return text
}

const temporary = mkdtempSync(path.join(tmpdir(), "countersign-docs-"))
// The embedded PostgreSQL runs under another account if the tests run as root.
chmodSync(temporary, 0o711)
const dataDirectory = path.join(temporary, "data")
const environment = {
  ...process.env,
  PATH: `${path.join(root, "node_modules", ".bin")}${path.delimiter}${process.env["PATH"] ?? ""}`,
  PORT: ports.get("8080"),
  COUNTERSIGN_DATA_DIR: dataDirectory,
  NO_COLOR: "1"
}

const faults: Array<string> = []
const counts = { run: 0, compared: 0, skipped: 0 }
const service = new Service(environment)
const bash = new Bash(temporary, environment)

const place = ({ document, line }: CodeBlock): string => `${document}:${line}`

const compare = (block: CodeBlock, shown: CodeBlock, actual: string, matches: typeof isOutput): void => {
  counts.compared++
  const output = there(actual)
  if (!matches(shown.code, output)) {
    faults.push(`${place(shown)}: the output of ${place(block)} is another one:\n${output.trimEnd()}`)
  }
}

/** Runs one block and compares the output that the document shows. Background output is compared later, by the check returned. */
const runBlock = async (block: CodeBlock, shown: CodeBlock | undefined): Promise<() => Promise<void>> => {
  const code = here(block.code, service.adminKey)
  const nothing = async () => {}
  if (block.directive === "service") {
    const output = await service.start(code)
    if (shown !== undefined) compare(block, shown, output, containsOutput)
    return nothing
  }
  const awaited = /^background: (.*)$/.exec(block.directive ?? "")?.[1]
  if (awaited !== undefined) {
    const output = await bash.start(code, here(awaited, undefined))
    return shown === undefined
      ? nothing
      : async () => {
          const deadline = Date.now() + BACKGROUND_MILLIS
          while (!containsOutput(shown.code, there(output())) && Date.now() < deadline) {
            await new Promise((resolve) => setTimeout(resolve, 50))
          }
          compare(block, shown, output(), containsOutput)
        }
  }
  const result: BlockResult = await bash.run(code)
  if (result.failed !== undefined) {
    faults.push(`${place(block)}: ${result.failed}\n${there(result.stdout + result.stderr).trimEnd()}`)
  } else if (shown !== undefined) {
    compare(block, shown, result.stdout, isOutput)
  }
  return nothing
}

const runDocument = async (document: string): Promise<void> => {
  const blocks = codeBlocks(document)
  const checks: Array<() => Promise<void>> = []
  for (const [index, block] of blocks.entries()) {
    if (OTHER_SHELLS.has(block.language))
      faults.push(`${place(block)}: write \`sh\`; only such blocks are run`)
    if (block.language !== "sh") continue
    const reason = /^not run: (.+)$/.exec(block.directive ?? "")?.[1]
    if (reason !== undefined) {
      counts.skipped++
      continue
    }
    counts.run++
    const next = blocks[index + 1]
    const shown = next?.followsBlock === true && next.language !== "sh" ? next : undefined
    checks.push(await runBlock(block, shown))
    // Later blocks build on this one.
    if (faults.length > 0) break
  }
  for (const check of checks) await check()
  await bash.stopBackground()
}

const named = process.argv.slice(2)
const chosen = documents().filter(
  (document) => named.length === 0 || document === "README.md" || named.includes(document)
)
try {
  for (const document of chosen) {
    const start = performance.now()
    const before = counts.run
    await runDocument(document)
    if (counts.run > before) {
      console.log(
        `${document}: ${counts.run - before} (${((performance.now() - start) / 1000).toFixed(1)} s)`
      )
    }
    if (faults.length > 0) break
  }
} catch (error) {
  faults.push(error instanceof Error ? error.message : String(error))
} finally {
  await bash.close()
  await service.stop()
  rmSync(temporary, { recursive: true, force: true })
}
const { compared, run, skipped } = counts
report(faults, `${run} blocks run, ${compared} outputs compared, ${skipped} not run`)
