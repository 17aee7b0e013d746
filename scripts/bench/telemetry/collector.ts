/** A stub of an OTLP collector, in a process of its own: decodes requests, answers them, and reports the number of spans received. */
import { Schema } from "effect"
import { createServer } from "node:http"
import { gunzipSync } from "node:zlib"

/** Requests to this path are never answered. */
const HANGING = "/hang"

/** Requests to this path are answered after `SLOW_MILLIS`. */
const SLOW = "/slow"
const SLOW_MILLIS = 200

const Request = Schema.fromJsonString(
  Schema.Struct({
    resourceSpans: Schema.Array(
      Schema.Struct({
        scopeSpans: Schema.Array(Schema.Struct({ spans: Schema.Array(Schema.Unknown) }))
      })
    )
  })
)
const decode = Schema.decodeUnknownSync(Request)

let spans = 0
let reported = 0

const server = createServer((request, response) => {
  const chunks: Array<Buffer> = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    const body = Buffer.concat(chunks)
    const text = request.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body
    for (const { scopeSpans } of decode(text.toString("utf8")).resourceSpans) {
      for (const scope of scopeSpans) spans += scope.spans.length
    }
    if (request.url === HANGING) return
    const answer = () =>
      response.writeHead(200, { "content-type": "application/json" }).end(`{"partialSuccess":{}}`)
    if (request.url === SLOW) setTimeout(answer, SLOW_MILLIS)
    else answer()
  })
})
server.listen(0, "127.0.0.1", () => {
  const address = server.address()
  process.send?.({ port: typeof address === "object" && address !== null ? address.port : 0 })
})
setInterval(() => {
  if (spans === reported) return
  reported = spans
  process.send?.({ spans })
}, 5)
process.on("disconnect", () => process.exit(0))
