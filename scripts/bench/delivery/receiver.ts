/** The webhook receiver process: answers immediately, counts, and records when each event arrived at each path. */
import { createServer } from "node:http"
import { HANGING_PATH } from "./message.ts"
import { nowMicros } from "./protocol.ts"

let arrivals: Array<readonly [string, number]> = []
let count = 0
let reported = 0

const server = createServer((request, response) => {
  if (request.url === HANGING_PATH) return
  arrivals.push([`${request.url} ${String(request.headers["x-svc-event-id"])}`, nowMicros()])
  count++
  request.resume()
  response.writeHead(204).end()
})
server.listen(0, "127.0.0.1", () => {
  const address = server.address()
  process.send?.({
    _tag: "Listening",
    port: typeof address === "object" && address !== null ? address.port : 0
  })
})
setInterval(() => {
  if (count === reported) return
  reported = count
  process.send?.({ _tag: "Count", count })
}, 10)
// Any message requests the arrivals since the previous request.
process.on("message", () => {
  process.send?.({ _tag: "Arrivals", list: arrivals })
  arrivals = []
})
process.on("disconnect", () => process.exit(0))
