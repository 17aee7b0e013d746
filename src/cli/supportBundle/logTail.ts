import { Effect, Option, Schema } from "effect"
import { open } from "node:fs/promises"

/** The most of a log that is read, in bytes, from its end. */
const MAX_TAIL_BYTES = 1024 * 1024

/** The annotations of a line that are shown: values that the service itself chooses, and no ids, addresses or texts of organizations. */
const SHOWN_ANNOTATIONS = [
  "method",
  "route",
  "operation",
  "status",
  "ms",
  "bytes",
  "slow",
  "sample_ratio",
  "statement",
  "span",
  "omitted",
  "request_id",
  "trace_id",
  "state",
  "version",
  "reason",
  "count",
  "spans"
] as const

const Line = Schema.fromJsonString(
  Schema.Struct({
    timestamp: Schema.optionalKey(Schema.String),
    level: Schema.optionalKey(Schema.String),
    message: Schema.optionalKey(Schema.String),
    cause: Schema.optionalKey(Schema.String),
    annotations: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown))
  })
)
const decodeLine = Schema.decodeUnknownOption(Line)

/** The names of errors and the places of a stack, without the errors' messages. */
const placesOf = (cause: string): string =>
  cause
    .split("\n")
    .flatMap((line) => {
      if (/^\s+at /.test(line)) return [line]
      const name = /^\s*(?:\[cause\]: )?([A-Za-z]\w*(?:Error|Failed|Invalid))\b/.exec(line)?.[1]
      return name === undefined ? [] : [name]
    })
    .join("\n")

/** A line of the service's JSON log with the shown members, its texts scrubbed; undefined for any other line. */
const showLine = (text: string, scrub: (text: string) => string): string | undefined => {
  const line = Option.getOrUndefined(decodeLine(text))
  if (line === undefined) return undefined
  const { annotations = {}, cause, level, message, timestamp } = line
  const shown = SHOWN_ANNOTATIONS.filter((name) => {
    const value = annotations[name]
    return typeof value === "string" || typeof value === "number" || typeof value === "boolean"
  })
  return JSON.stringify(
    {
      timestamp,
      level,
      message,
      ...(cause === undefined ? {} : { cause: placesOf(cause) }),
      annotations: Object.fromEntries(shown.map((name) => [name, annotations[name]]))
    },
    (_, value: unknown) => (typeof value === "string" ? scrub(value) : value)
  )
}

/** The end of a stream, from the beginning of a line. Holds little more than that end in memory. */
const readStreamTail = async (stream: AsyncIterable<unknown>): Promise<string> => {
  const chunks: Array<Buffer> = []
  let length = 0
  let isWhole = true
  for await (const part of stream) {
    const chunk = part instanceof Uint8Array ? Buffer.from(part) : Buffer.from(String(part))
    chunks.push(chunk)
    length += chunk.length
    for (
      let [first] = chunks;
      first !== undefined && length - first.length >= MAX_TAIL_BYTES;
      [first] = chunks
    ) {
      chunks.shift()
      length -= first.length
      isWhole = false
    }
  }
  const all = Buffer.concat(chunks)
  if (isWhole && all.length <= MAX_TAIL_BYTES) return all.toString("utf8")
  const text = all.toString("utf8", Math.max(0, all.length - MAX_TAIL_BYTES))
  return text.slice(text.indexOf("\n") + 1)
}

/** The end of a file, or of standard input for `-`, from the beginning of a line. Fails with the system's error. */
export const readTail = (file: string) =>
  Effect.tryPromise(async () => {
    if (file === "-") return readStreamTail(process.stdin)
    const handle = await open(file, "r")
    try {
      const { size } = await handle.stat()
      const from = Math.max(0, size - MAX_TAIL_BYTES)
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(size - from), 0, size - from, from)
      const text = buffer.toString("utf8", 0, bytesRead)
      return from === 0 ? text : text.slice(text.indexOf("\n") + 1)
    } finally {
      await handle.close()
    }
  })

/** The JSON lines of a log with the shown members, and the number of other lines. */
export const showLog = (text: string, scrub: (text: string) => string): string => {
  const lines = text.split("\n").filter((line) => line.trim() !== "")
  const shown = lines.flatMap((line) => showLine(line, scrub) ?? [])
  const omitted = lines.length - shown.length
  return [
    ...shown,
    ...(omitted === 0
      ? []
      : [
          `(${omitted} ${omitted === 1 ? "line that is not JSON was" : "lines that are not JSON were"} left out)`
        ]),
    ""
  ].join("\n")
}
