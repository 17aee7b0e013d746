import type { Readable } from "node:stream"

/** Largest message, in bytes. The official libraries read up to 10 MB by default. */
export const MAX_MESSAGE_BYTES = 32 * 2 ** 20

/** The lines of a stream that are not empty. Fails if one is longer than the limit. */
export async function* readMessageLines(stream: Readable): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let parts: Array<Uint8Array> = []
  let bytes = 0
  for await (const chunk of stream) {
    let rest: Uint8Array = Buffer.isBuffer(chunk) ? chunk : Buffer.from(String(chunk))
    for (let end = rest.indexOf(0x0a); end !== -1; end = rest.indexOf(0x0a)) {
      parts.push(rest.subarray(0, end))
      rest = rest.subarray(end + 1)
      const line = decoder.decode(Buffer.concat(parts)).trim()
      parts = []
      bytes = 0
      if (line !== "") yield line
    }
    parts.push(rest)
    bytes += rest.byteLength
    if (bytes > MAX_MESSAGE_BYTES) throw new Error(`a message has more than ${MAX_MESSAGE_BYTES} bytes`)
  }
}
