/** Mutants of the HTTP server: authentication, limits, bodies, idempotency keys, and the console's sessions. */
import type { ListedMutant } from "../list.ts"

const body = "server/http/RequestBody.ts"
const bodyTests = ["server/http/RequestBody.test.ts"]
const browser = "server/console/Console/browserRequest.ts"
const browserTests = ["server/console/Console/browserRequest.test.ts"]
const idempotencyTests = ["server/http/Idempotency.test.ts"]
const rateLimitTests = ["server/http/RateLimits.test.ts"]
const frameTests = ["server/http/ProblemFrame.test.ts"]
const authorizationTests = ["api/Authorization.test.ts"]
const networkTests = ["server/identity/ApiKeys/allowedNetworks.test.ts"]
const clientAddress = "server/http/ClientAddress.ts"
const consoleTests = ["server/console/Console.test.ts"]
const sessions = "server/console/ConsoleSessions.ts"
const signIns = ["server/console/ConsoleSessions/signIns.test.ts"]

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
  },
  {
    file: "server/http/Idempotency.ts",
    from: ".update(principal.actor.id)",
    to: '.update("")',
    tests: idempotencyTests
  },
  {
    file: "server/http/Idempotency.ts",
    from: "const run = atomically(runOnce(operation, name, key, endpoint.payload.size > 0, until))",
    to: "const run = runOnce(operation, name, key, endpoint.payload.size > 0, until)",
    tests: idempotencyTests
  },
  {
    file: "server/http/RateLimits.ts",
    from: "current.get(name) ?? previous.get(name) ?? now",
    to: "current.get(name) ?? now",
    tests: rateLimitTests
  },
  {
    file: "server/http/RateLimits.ts",
    from: ".slice(0, 8)",
    to: "",
    tests: rateLimitTests
  },
  {
    file: body,
    from: "!required.some((scope) => principal.scopes.has(scope))",
    to: "false",
    tests: authorizationTests
  },
  {
    file: body,
    from: "if (Number(length ?? 0) > maxBytes) return refuse",
    to: "",
    tests: ["server/approvals/Steps.test.ts"]
  },
  {
    file: body,
    from: ".pipe(Effect.provideService(HttpIncomingMessage.MaxBodySize, limit))",
    to: "",
    tests: frameTests
  },
  {
    file: body,
    from: 'if (coding !== undefined && coding.toLowerCase() !== "identity") return encoded',
    to: "",
    tests: frameTests
  },
  {
    file: body,
    from: "if (type !== undefined && !isJson(type)) return notJson",
    to: "",
    tests: frameTests
  },
  {
    file: "server/http/RequestBody/checkContent.ts",
    from: "if (!isUtf8(bytes)) return undefined",
    to: "",
    tests: frameTests
  },
  {
    file: "server/http/RequestBody/checkContent.ts",
    from: "const MAX_DEPTH = 64",
    to: "const MAX_DEPTH = 6_400",
    tests: frameTests
  },
  {
    file: "server/http/Authentication.ts",
    from: "scopes.some((scope) => principal.scopes.has(scope)) ? authorized(operation) : refused",
    to: "authorized(operation)",
    tests: authorizationTests
  },
  {
    file: clientAddress,
    from: "|| !containsAddress(trusted, peer)",
    to: "",
    tests: networkTests
  },
  { file: clientAddress, from: ".toReversed()", to: "", tests: networkTests },
  {
    file: clientAddress,
    from: "if (parsed === undefined) return address",
    to: "if (parsed === undefined) continue",
    tests: networkTests
  },
  {
    file: sessions,
    from: "AND api_keys.revoked_at IS NULL AND (api_keys.expires_at IS NULL OR api_keys.expires_at > ${toDate(now)}::timestamptz) `",
    to: "`",
    tests: consoleTests
  },
  {
    file: sessions,
    from: "AND console_sessions.digest = ${token.digest} AND console_sessions.expires_at > ${toDate(now)}::timestamptz",
    to: "AND console_sessions.digest = ${token.digest}",
    tests: consoleTests
  },
  {
    file: sessions,
    from: 'scopes.has(MANAGE) ? sql.literal("") : sql`AND key_id = ${actor.id}`',
    to: 'sql.literal("")',
    tests: signIns
  },
  {
    file: sessions,
    from: "if (!isOwn && !scopes.has(MANAGE)) {",
    to: "if (false) {",
    tests: signIns
  },
  {
    file: sessions,
    from: "if (networks !== null && !containsAddress(networks, address)) {",
    to: "if (false) {",
    tests: networkTests
  },
  {
    file: sessions,
    from: "if (token !== undefined && !isRemembered(token)) yield* admit",
    to: "",
    tests: consoleTests
  },
  {
    file: "server/console/ConsoleSessions/rows.ts",
    from: "OFFSET ${MAX_SESSIONS_PER_KEY - 1}",
    to: "OFFSET ${MAX_SESSIONS_PER_KEY}",
    tests: consoleTests
  },
  {
    file: sessions,
    from: "ended.forEach(({ digest }) => watch.end(digest))",
    to: "undefined",
    tests: signIns
  },
  {
    file: "server/http/listen/Connections.ts",
    from: "largest.connections <= client.connections + 1",
    to: "largest.connections <= client.connections",
    tests: ["server/http/listen/Connections.test.ts"]
  },
  {
    file: "server/http/authenticatedResponse.ts",
    from: "response.status === FORBIDDEN",
    to: "false",
    tests: ["server/identity/AuthenticationRefusals.test.ts"]
  },
  {
    file: "server/http/authenticatedResponse.ts",
    from: "quota.addHeaders(response)",
    to: "response",
    tests: rateLimitTests
  },
  {
    file: "server/console/Console/authentication.ts",
    from: "Stream.interruptWhen(response.body.stream, sessions.ended(session))",
    to: "response.body.stream",
    tests: consoleTests
  }
]
