/** A minimal OTLP/HTTP JSON collector: prints the name and the trace id of each span it receives. For trying out telemetry. */
import { createServer } from "node:http"
import { gunzipSync } from "node:zlib"

interface TraceExport {
  readonly resourceSpans: ReadonlyArray<{
    readonly scopeSpans: ReadonlyArray<{
      readonly spans: ReadonlyArray<{ readonly name: string; readonly traceId: string }>
    }>
  }>
}

const token = process.env["COLLECTOR_TOKEN"]
const port = Number(process.env["COLLECTOR_PORT"] ?? 4318)

const server = createServer((request, response) => {
  const reply = (status: number) =>
    response.writeHead(status, { "content-type": "application/json" }).end("{}")
  if (request.url !== "/v1/traces") {
    reply(404)
    return
  }
  if (token !== undefined && request.headers.authorization !== `Bearer ${token}`) {
    reply(401)
    return
  }
  const chunks: Array<Buffer> = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    const body = Buffer.concat(chunks)
    const text = (request.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body).toString()
    const { resourceSpans }: TraceExport = JSON.parse(text)
    for (const { name, traceId } of resourceSpans.flatMap(({ scopeSpans }) =>
      scopeSpans.flatMap(({ spans }) => spans)
    )) {
      console.log(`span ${name} ${traceId}`)
    }
    reply(200)
  })
})
server.listen(port, "127.0.0.1", () => console.log(`collecting at http://127.0.0.1:${port}/v1/traces`))
