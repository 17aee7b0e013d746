/**
 * Loaded ahead of a service: at SIGUSR2 it has a fault that nobody catches, as a library may have one, with all hanging on the error that
 * libraries hang on theirs: the text that was no URL, the request with its headers, the configuration.
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
