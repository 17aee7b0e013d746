/** Mutants of the HTTP server: authentication, limits, bodies, idempotency keys, and the console's sessions. */
import type { ListedMutant } from "../list.ts"

const body = "server/http/RequestBody.ts"
const bodyTests = ["server/http/RequestBody.test.ts"]
const browser = "server/console/Console/browserRequest.ts"
const browserTests = ["server/console/Console/browserRequest.test.ts"]

export const http: ReadonlyArray<ListedMutant> = [
  {
    file: body,
    from: "if (bytes <= LARGE_BODY) return run",
    to: "return run",
    tests: bodyTests
  },
  {
    file: browser,
    from: 'if (site !== undefined && site !== "same-origin") return false',
    to: "",
    tests: browserTests
  },
  {
    file: browser,
    from: "origin === undefined ? site !== undefined :",
    to: "origin === undefined ? true :",
    tests: browserTests
  },
  {
    file: browser,
    from: 'return site === undefined || site === "same-origin" || site === "none"',
    to: "return true",
    tests: browserTests
  },
  {
    file: browser,
    from: "(isLoopback(host) ? cookies[LOOPBACK_COOKIE] : undefined)",
    to: "cookies[LOOPBACK_COOKIE]",
    tests: browserTests
  }
]
