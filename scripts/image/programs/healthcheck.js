/**
 * Exits with 0 if the service of this container responds at /healthz. The image's HEALTHCHECK; the image has no shell and no curl.
 */
import { request } from "node:http"

const host = process.env.HOST ?? "127.0.0.1"
const fail = (why) => {
  process.stderr.write(`${why}\n`)
  process.exit(1)
}
request({
  // An unspecified address is listened on, and not connected to.
  host: host === "0.0.0.0" || host === "" ? "127.0.0.1" : host === "::" ? "::1" : host,
  port: Number(process.env.PORT || 8080),
  path: "/healthz",
  timeout: 4_000
})
  .on("response", ({ statusCode }) => (statusCode === 200 ? process.exit(0) : fail(`status ${statusCode}`)))
  .on("timeout", () => fail("no response within 4 seconds"))
  .on("error", ({ message }) => fail(message))
  .end()
