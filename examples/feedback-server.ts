/**
 * Serves a page that asks end users for feedback on an answer. The API key stays in this process: the page gets a token that
 * can give feedback on one run, and nothing else.
 */
import { connect } from "countersign/connect"
import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import { fileURLToPath } from "node:url"

/** Settings of this server, from environment variables. */
const required = (name: string): string => {
  const value = process.env[name]
  if (value === undefined) throw new Error(`Set ${name}.`)
  return value
}

// A key with the preset `end_user_feedback` suffices.
const countersign = connect({ url: required("COUNTERSIGN_URL"), key: required("COUNTERSIGN_KEY") })
// The `trace_id` of the run whose answer the page shows. Yours comes from the session of the signed-in user.
const trace_id = required("RUN")
const port = Number(process.env["PAGE_PORT"] ?? 4002)

const page = readFileSync(new URL("feedback-page.html", import.meta.url))
// One file without imports, for a page without a bundler.
const script = readFileSync(fileURLToPath(import.meta.resolve("countersign/feedback")))

const server = createServer((request, response) => {
  const send = (status: number, type: string, body: string | Buffer) =>
    response.writeHead(status, { "content-type": type, "cache-control": "no-store" }).end(body)
  switch (`${request.method} ${request.url}`) {
    case "GET /":
      return send(200, "text/html; charset=utf-8", page)
    case "GET /countersign-feedback.js":
      return send(200, "text/javascript", script)
    case "POST /feedback-token": {
      // Check here that the signed-in user may see this run, and send that user's own ID.
      countersign.feedback
        .createToken({ params: { id: trace_id }, payload: { max_uses: 3, end_user_id: "customer-4711" } })
        .then(
          ({ token, url }) => send(200, "application/json", JSON.stringify({ token, url })),
          (error: unknown) => {
            console.error(error)
            send(502, "text/plain", "No feedback token")
          }
        )
      return undefined
    }
    default:
      return send(404, "text/plain", "Not found")
  }
})
server.listen(port, "127.0.0.1", () => console.log(`serving http://127.0.0.1:${port}`))
