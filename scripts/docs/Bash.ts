/** One bash for all blocks of the documents, so that a variable set by one block is there for the next. */
import { type ChildProcess, spawn } from "node:child_process"
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import path from "node:path"
import { root } from "./markdown.ts"

export interface BlockResult {
  readonly stdout: string
  readonly stderr: string
  /** Why the block failed; undefined if every command succeeded. */
  readonly failed: string | undefined
}

/** How long one block may take: so that one that hangs ends. The examples' tests take 20 s, and several times that on a busy machine. */
const BLOCK_MILLIS = 180_000

/** A checkout's own commands: the package is not installed there, so `npx countersign` would link it at each call. */
const PREAMBLE = `
set -o pipefail -m
npx() { if [ "$1" = countersign ]; then shift; node "${root}scripts/countersign.js" "$@"; else command npx "$@"; fi; }
`

const pause = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis))

export class Bash {
  readonly #directory: string
  readonly #process: ChildProcess
  #count = 0

  constructor(directory: string, environment: NodeJS.ProcessEnv) {
    this.#directory = directory
    this.#process = spawn("bash", ["--noprofile", "--norc"], {
      cwd: linkCheckout(directory),
      env: environment,
      stdio: ["pipe", "ignore", "inherit"]
    })
    this.#send(PREAMBLE)
  }

  /** Runs a block to its end. It fails if one of its commands outside of conditions does. */
  async run(code: string): Promise<BlockResult> {
    const file = this.#write(code)
    this.#send(
      `failed=; trap 'failed="line $LINENO: exit code $?"' ERR`,
      `source ${file} >${file}.out 2>${file}.err </dev/null`,
      `trap - ERR; echo "$failed" >${file}.tmp; mv ${file}.tmp ${file}.end`
    )
    const end = await this.#waitFor(() => read(`${file}.end`), BLOCK_MILLIS)
    const failed = end === undefined ? `did not end within ${BLOCK_MILLIS / 1000} s` : end.trim()
    return {
      stdout: read(`${file}.out`) ?? "",
      stderr: read(`${file}.err`) ?? "",
      failed: failed === "" ? undefined : failed
    }
  }

  /** Starts a block in the background and waits until it has printed a text. Returns a function that reads its output. */
  async start(code: string, awaited: string): Promise<() => string> {
    const file = this.#write(code)
    this.#send(`( source ${file} ) >${file}.out 2>&1 </dev/null &`)
    const output = () => read(`${file}.out`) ?? ""
    const found = await this.#waitFor(() => (output().includes(awaited) ? true : undefined), BLOCK_MILLIS)
    if (found === undefined) throw new Error(`A background block did not print "${awaited}":\n${output()}`)
    return output
  }

  /** Ends all background blocks, with the processes that they started. */
  async stopBackground(): Promise<void> {
    await this.run(
      `for pid in $(jobs -p); do kill -TERM -- "-$pid" 2>/dev/null || true; done\nwait 2>/dev/null || true`
    )
  }

  async close(): Promise<void> {
    if (this.#process.exitCode !== null) return
    const ended = new Promise((resolve) => this.#process.once("exit", resolve))
    this.#process.stdin?.end("for pid in $(jobs -p); do kill -KILL -- -$pid; done\nexit\n")
    await ended
  }

  #write(code: string): string {
    const file = path.join(this.#directory, `block-${++this.#count}`)
    writeFileSync(file, `${code}\n`)
    return file
  }

  #send(...lines: ReadonlyArray<string>): void {
    this.#process.stdin?.write(`${lines.join("\n")}\n`)
  }

  async #waitFor<A>(look: () => A | undefined, millis: number): Promise<A | undefined> {
    const deadline = Date.now() + millis
    while (Date.now() < deadline && this.#process.exitCode === null) {
      const found = look()
      if (found !== undefined) return found
      await pause(20)
    }
    return undefined
  }
}

/** A folder with a link to each entry of the checkout, so that the files that documents write do not stay in the checkout. */
const linkCheckout = (directory: string): string => {
  const checkout = path.join(directory, "checkout")
  mkdirSync(checkout)
  for (const entry of readdirSync(root)) symlinkSync(path.join(root, entry), path.join(checkout, entry))
  return checkout
}

const read = (file: string): string | undefined => {
  try {
    return readFileSync(file, "utf8")
  } catch {
    return undefined
  }
}
