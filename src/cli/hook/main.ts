/** `countersign hook claude-code` and `countersign hook codex` as a process. Loads neither the command line's library nor the server. */
import { readFileSync } from "node:fs"
import type { HookVendor } from "../../domain/hooks/hookVendors.ts"
import { type HookFlags, hookOptions } from "./hookOptions.ts"
import { deniedResult, type HookResult, MAX_INPUT_BYTES, runHook } from "./runHook.ts"

/** Everything on stdin; undefined if it is longer than the limit. */
const readInput = async (): Promise<Uint8Array | undefined> => {
  const chunks: Array<Buffer> = []
  let length = 0
  for await (const chunk of process.stdin) {
    const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(String(chunk))
    length += bytes.byteLength
    if (length > MAX_INPUT_BYTES) return undefined
    chunks.push(bytes)
  }
  return Buffer.concat(chunks)
}

/** Answers the input on stdin. */
export const answerStdin = async (vendor: HookVendor, flags: HookFlags): Promise<HookResult> => {
  const options = hookOptions(vendor, flags, process.env, (file) => readFileSync(file, "utf8"))
  if (typeof options === "string") return deniedResult(options)
  const input = await readInput()
  return input === undefined
    ? deniedResult(`the input has more than ${MAX_INPUT_BYTES / 2 ** 20} MiB`)
    : runHook(options, input)
}

const write = (stream: NodeJS.WriteStream, text: string): Promise<void> =>
  new Promise((done) => {
    stream.on("error", () => done())
    stream.write(text, () => done())
  })

/** Runs as the process. It exits with 0 after an answer and with 2, which blocks, after everything else. */
export const main = async (vendor: HookVendor, flags: HookFlags): Promise<never> => {
  const result = await answerStdin(vendor, flags).catch((error: unknown) =>
    deniedResult(error instanceof Error ? error.message : String(error))
  )
  await write(process.stderr, result.stderr)
  await write(process.stdout, result.stdout)
  return process.exit(result.code)
}
