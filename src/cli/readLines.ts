import { Stream } from "effect"
import { createReadStream } from "node:fs"
import { type FileFailed, fileFailed } from "./fileFailure.ts"

/**
 * Streams the lines of a file, or of standard input for `-`, as UTF-8 without line endings. A line longer than `longest` characters is cut
 * after one character more: the consumer rejects it.
 */
export const readLines = (file: string, longest: number): Stream.Stream<string, FileFailed> =>
  Stream.fromAsyncIterable(
    bounded(() => (file === "-" ? process.stdin : createReadStream(file)), longest),
    (error) => fileFailed(file, error)
  )

/** The file is opened when the first line is pulled: an earlier failure would be unhandled. */
async function* bounded(open: () => AsyncIterable<unknown>, longest: number) {
  const decoder = new TextDecoder("utf-8", { fatal: true })
  let rest = ""
  /** Whether `rest` follows the beginning of a line that was cut. */
  let isCut = false
  for await (const chunk of open()) {
    rest += decoder.decode(chunk instanceof Uint8Array ? chunk : Buffer.from(String(chunk)), { stream: true })
    let start = 0
    for (let end = rest.indexOf("\n"); end >= 0; end = rest.indexOf("\n", start)) {
      if (!isCut) yield rest.slice(start, end).replace(/\r$/, "")
      isCut = false
      start = end + 1
    }
    rest = isCut ? "" : rest.slice(start)
    if (rest.length > longest) {
      yield rest.slice(0, longest + 1)
      rest = ""
      isCut = true
    }
  }
  rest += decoder.decode()
  if (rest !== "" && !isCut) yield rest
}
