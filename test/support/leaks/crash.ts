/**
 * Preloaded into the service: on SIGUSR2 it throws an uncaught error such as a library might, with everything attached that libraries
 * attach to their errors: the invalid URL, the request with its headers, the configuration.
 */
import { subscribe } from "node:diagnostics_channel"
import { IncomingMessage } from "node:http"

let headers: unknown

subscribe("http.server.request.start", (message) => {
  if (typeof message !== "object" || message === null || !("request" in message)) return
  if (message.request instanceof IncomingMessage) ({ rawHeaders: headers } = message.request)
})

process.on("SIGUSR2", () => {
  setImmediate(() => {
    const input = process.env["COUNTERSIGN_SMTP_URL"]
    const cause = Object.assign(new Error("The request failed"), {
      request: { headers },
      parameters: [input]
    })
    throw Object.assign(new TypeError("Invalid URL", { cause }), {
      code: "ERR_INVALID_URL",
      input,
      config: process.env
    })
  })
})
