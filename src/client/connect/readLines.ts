import { type FailedRequest, reasonOf, ServiceUnreachable } from "../ServiceUnreachable.ts"
import { UnexpectedResponse } from "../UnexpectedResponse.ts"
import { fromWire, Mismatch, type Shape } from "./shape.ts"

/** Longest line in characters. 8 MiB of numbers such as 1e20 take five times as much when written out. */
const MAX_LINE = 64 * 2 ** 20

/** Reads a response of JSON Lines as it arrives. Leaving the loop closes the connection. `onEnd` runs at the end. */
export async function* readLines(
  response: Response,
  request: FailedRequest,
  shape: Shape,
  signal: AbortSignal,
  onEnd: () => void
): AsyncGenerator<unknown, void, undefined> {
  const reader = response.body?.getReader()
  if (reader === undefined) return onEnd()
  const fail = (description: string) => new UnexpectedResponse(request, response.status, description)
  const read = (line: string): unknown => {
    try {
      return fromWire(shape, JSON.parse(line))
    } catch (error) {
      throw fail(
        error instanceof Mismatch ? `a line does not match the API at ${error.pointer}` : "a line is not JSON"
      )
    }
  }
  const decoder = new TextDecoder()
  /** The pieces of a line that has not ended, joined once when it ends. */
  let pieces: Array<string> = []
  let length = 0
  try {
    for (;;) {
      const chunk = await reader.read().catch((failure: unknown) => {
        signal.throwIfAborted()
        throw new ServiceUnreachable(request, reasonOf(failure))
      })
      const [first = "", ...others] = decoder.decode(chunk.value, { stream: !chunk.done }).split("\n")
      pieces.push(first)
      length += first.length
      if (length > MAX_LINE) throw fail("a line is too long")
      for (const next of others) {
        const line = pieces.join("")
        pieces = [next]
        length = next.length
        if (line.trim() !== "") yield read(line)
      }
      if (chunk.done) break
    }
    const line = pieces.join("")
    if (line.trim() !== "") yield read(line)
  } finally {
    await reader.cancel().catch(() => undefined)
    onEnd()
  }
}
