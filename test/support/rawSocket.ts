import { Effect } from "effect"
import * as Net from "node:net"

/** Everything received on a connection until it was closed. */
export interface Exchange {
  /** All bytes as text. */
  readonly text: string
  /** The status of the first response; NaN without one. */
  readonly status: number
  /** The headers of the first response, by lower-case name. */
  readonly headers: ReadonlyMap<string, string>
  /** The body of the first response, if it is a JSON object. */
  readonly body: Readonly<Record<string, unknown>>
}

const read = (text: string): Exchange => {
  const [head = "", ...rest] = text.split("\r\n\r\n")
  const [statusLine = "", ...lines] = head.split("\r\n")
  const headers = new Map(
    lines.map((line): [string, string] => {
      const at = line.indexOf(":")
      return [line.slice(0, at).toLowerCase(), line.slice(at + 1).trim()]
    })
  )
  return {
    text,
    status: Number(statusLine.split(" ")[1] ?? Number.NaN),
    headers,
    body: asRecord(rest.join("\r\n\r\n"))
  }
}

const asRecord = (text: string): Readonly<Record<string, unknown>> => {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === "object" && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}

/** Writes bytes to a loopback port unchanged, and reads until the other side closes the connection. */
export const exchange = (port: number, bytes: string | Uint8Array): Effect.Effect<Exchange> =>
  Effect.callback((resume) => {
    const chunks: Array<Buffer> = []
    const socket = Net.connect(port, "127.0.0.1")
    socket.on("data", (chunk: Buffer) => chunks.push(chunk))
    // A reset closes the connection too; bytes received before it count.
    socket.on("error", () => undefined)
    socket.on("close", () => resume(Effect.succeed(read(Buffer.concat(chunks).toString("utf8")))))
    socket.write(bytes)
    return Effect.sync(() => socket.destroy())
  })
