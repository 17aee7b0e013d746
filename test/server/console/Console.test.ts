import { assert, describe, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { ConsoleSession } from "../../../src/api/Console.ts"
import { PAGE_HEADER, PAGE_PARAMETER } from "../../../src/api/console/pageToken.ts"
import { request } from "node:http"
import { ConsoleSessions } from "../../../src/server/console/ConsoleSessions.ts"
import { MAX_SESSIONS_PER_KEY } from "../../../src/server/console/ConsoleSessions/rows.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { type Answer, send, service } from "../../support/service.ts"

/** The headers that a browser adds to requests of the console's own page. */
const sameOrigin = (url: string) => ({ origin: url, "sec-fetch-site": "same-origin" })

/** Signs in over HTTPS, unless the headers say otherwise. */
const signIn = (key: Redacted.Redacted, headers: Record<string, string> = {}) =>
  Effect.gen(function* () {
    const { url } = yield* Countersign
    return yield* send("/console/session", {
      method: "POST",
      headers: { ...sameOrigin(url.replace("http:", "https:")), ...headers },
      body: JSON.stringify({ key: Redacted.value(key) })
    })
  })

const cookieOf = (answer: Answer): string => answer.headers.getSetCookie()[0]?.split(";")[0] ?? ""

/** Signs in with a new key; returns the session cookie. */
const cookieFor = (input: Parameters<Countersign["Service"]["key"]>[0]) =>
  Effect.gen(function* () {
    const { key } = yield* Countersign
    return cookieOf(yield* signIn(yield* key(input)))
  })

/** Signs in over HTTP with the given `Host` header, which `fetch` does not allow to set. */
const postAs = (url: string, host: string, body: string) =>
  Effect.promise(
    () =>
      new Promise<{ status: number | undefined; code: unknown }>((done, fail) => {
        const headers = { host, origin: `http://${host}`, "content-type": "application/json" }
        const asked = request(`${url}/console/session`, { method: "POST", headers }, (answer) => {
          let text = ""
          answer.setEncoding("utf8").on("data", (more: string) => (text += more))
          answer.on("end", () => done({ status: answer.statusCode, code: JSON.parse(text).code }))
        })
        asked.on("error", fail).end(body)
      })
  )

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("Console", (it) => {
  describe("signing in", () => {
    it.effect("signing in sets an HttpOnly, SameSite=Strict cookie for eight hours", () =>
      Effect.gen(function* () {
        const { key, url } = yield* Countersign
        const answer = yield* signIn(yield* key({ preset: "reviewer", name: "Ada" }), sameOrigin(url))
        assert.strictEqual(answer.status, 200)
        assert.strictEqual(answer.body["organization"], "test")
        const [cookie = ""] = answer.headers.getSetCookie()
        assert.match(cookie, /^countersign-\d+=org_[0-9a-f]{32}\.[\w-]{22}; /)
        assert.match(answer.headers.get(PAGE_HEADER) ?? "", /^[\w-]{21}$/)
        for (const part of ["Max-Age=28800", "Path=/", "HttpOnly", "SameSite=Strict"])
          assert.include(cookie, part)
        assert.notInclude(cookie, "Secure")
      })
    )

    it.effect(
      "over HTTP on loopback the cookie, which every port gets, is nothing without the page's part",
      () =>
        Effect.gen(function* () {
          const { key, url } = yield* Countersign
          const answer = yield* signIn(yield* key({ preset: "admin" }), sameOrigin(url))
          const cookie = cookieOf(answer)
          const page = answer.headers.get(PAGE_HEADER) ?? assert.fail("a part for the page")
          const path = "/console/api/v1/api-keys"
          const status = (headers: Record<string, string>, query = "") =>
            Effect.map(
              send(`${path}${query}`, { headers: { ...sameOrigin(url), ...headers } }),
              (got) => got.status
            )
          assert.strictEqual(yield* status({ cookie, [PAGE_HEADER]: page }), 200)
          assert.strictEqual(yield* status({ cookie }, `?${PAGE_PARAMETER}=${page}`), 200)
          assert.strictEqual(yield* status({ cookie }), 401)
          assert.strictEqual(yield* status({ [PAGE_HEADER]: page }), 401)
          assert.strictEqual(yield* status({ cookie, [PAGE_HEADER]: "x".repeat(page.length) }), 401)
          // Of a service on another port, which has another name for its cookie.
          const other = cookie.replace(/^countersign-\d+/, "countersign-1")
          assert.strictEqual(yield* status({ cookie: other, [PAGE_HEADER]: page }), 401)
          const signedOut = yield* send("/console/session", { headers: { ...sameOrigin(url), cookie } })
          assert.strictEqual(signedOut.status, 200)
          assert.deepStrictEqual(signedOut.body, { value: null })
        })
    )

    it.effect("signing in over HTTPS sets a Secure cookie with the __Host- prefix", () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const answer = yield* signIn(yield* key())
        const [cookie = ""] = answer.headers.getSetCookie()
        assert.match(cookie, /^__Host-countersign=/)
        assert.include(cookie, "Secure")
      })
    )

    it.effect("signing in with an unknown key, or over HTTP from a network address, is refused", () =>
      Effect.gen(function* () {
        const { key, url } = yield* Countersign
        const wrong = yield* signIn(Redacted.make("csk_nonsense"))
        assert.deepStrictEqual([wrong.status, wrong.body["code"]], [401, "INVALID_API_KEY"])
        assert.deepStrictEqual(wrong.headers.getSetCookie(), [])
        // Refused by its size alone, because anybody can send it.
        const large = yield* signIn(Redacted.make("x".repeat(5_000)))
        assert.deepStrictEqual([large.status, large.body["code"]], [413, "PAYLOAD_TOO_LARGE"])
        const body = JSON.stringify({ key: Redacted.value(yield* key()) })
        const open = yield* postAs(url, `192.0.2.1:${new URL(url).port}`, body)
        assert.deepStrictEqual(open, { status: 403, code: "INSECURE_ADDRESS" })
      })
    )

    it.effect("the database stores only the digest of a session token", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const cookie = yield* cookieFor({ preset: "reviewer" })
        const secret = cookie.split(".")[1] ?? ""
        const rows = yield* sql<{ text: string }>`SELECT console_sessions::text AS text FROM console_sessions`
        assert.isAbove(rows.length, 0)
        for (const { text } of rows) {
          assert.notInclude(text, secret)
          assert.notInclude(text, Buffer.from(secret).toString("hex"))
        }
      })
    )
  })

  describe("a session", () => {
    it.effect("a session has the scopes of its key for the same operations", () =>
      Effect.gen(function* () {
        const { url } = yield* Countersign
        const cookie = yield* cookieFor({ preset: "reviewer", name: "Ada" })
        const headers = { cookie, ...sameOrigin(url) }
        const list = yield* send("/console/api/v1/agent-approvals?limit=1", { headers })
        assert.deepStrictEqual([list.status, list.body], [200, { approvals: [], next_cursor: null }])
        const keys = yield* send("/console/api/v1/api-keys", { headers })
        assert.deepStrictEqual([keys.status, keys.body["code"]], [403, "INSUFFICIENT_SCOPE"])
        const who = yield* send("/console/session", { headers })
        const session = yield* Schema.decodeUnknownEffect(ConsoleSession)(who.body)
        assert.deepStrictEqual(session.key.name, "Ada")
        assert.notInclude(session.scopes, "keys.write")
      }).pipe(Effect.orDie)
    )

    it.effect("a session cookie is not accepted under /v1, nor an API key under /console", () =>
      Effect.gen(function* () {
        const { key, url } = yield* Countersign
        const admin = yield* key()
        const cookie = yield* cookieFor({ preset: "admin" })
        const direct = yield* send("/v1/agent-approvals", { headers: { cookie, ...sameOrigin(url) } })
        assert.strictEqual(direct.status, 401)
        const behind = yield* send("/console/api/v1/agent-approvals", { key: admin })
        assert.strictEqual(behind.status, 401)
      })
    )

    it.effect("cross-site requests and state-changing requests without an origin are refused", () =>
      Effect.gen(function* () {
        const { url } = yield* Countersign
        const cookie = yield* cookieFor({ preset: "admin" })
        const create = (headers: Record<string, string>) =>
          send("/console/api/v1/agent-sessions", {
            method: "POST",
            headers: { cookie, ...headers },
            body: "{}"
          })
        const port = new URL(url).port
        for (const headers of [
          { origin: "https://evil.example", "sec-fetch-site": "cross-site" },
          { origin: `http://127.0.0.1:${Number(port) + 1}`, "sec-fetch-site": "same-site" },
          { origin: "null", "sec-fetch-site": "same-origin" },
          { origin: "https://evil.example" },
          {}
        ]) {
          const answer = yield* create(headers)
          assert.deepStrictEqual(
            [answer.status, answer.body["code"]],
            [403, "CROSS_SITE"],
            JSON.stringify(headers)
          )
        }
        assert.strictEqual((yield* create(sameOrigin(url))).status, 201)
        const read = yield* send("/console/api/v1/agent-sessions", {
          headers: { cookie, "sec-fetch-site": "cross-site" }
        })
        assert.strictEqual(read.status, 403)
      })
    )

    it.effect("no response allows another origin to read it", () =>
      Effect.gen(function* () {
        const { key, url } = yield* Countersign
        const cookie = yield* cookieFor({ preset: "admin" })
        const origin = "https://evil.example"
        const preflight = {
          origin,
          "access-control-request-method": "POST",
          "access-control-request-headers": "authorization"
        }
        for (const [path, init] of [
          ["/v1/agent-sessions", { headers: { origin }, key: yield* key() }],
          ["/v1/agent-sessions", { method: "OPTIONS", headers: preflight }],
          ["/console/api/v1/agent-sessions", { headers: { origin, cookie } }],
          ["/console/api/v1/agent-sessions", { method: "OPTIONS", headers: { ...preflight, cookie } }],
          ["/console/session", { headers: { ...sameOrigin(url), cookie } }],
          ["/console", { headers: { origin } }],
          ["/openapi.json", { headers: { origin } }]
        ] as const) {
          const answer = yield* send(path, init)
          const named = [...answer.headers.keys()].filter((name) => name.startsWith("access-control-"))
          assert.deepStrictEqual(named, [], path)
        }
      })
    )

    it.effect("signing in again ends the browser's old session, and a key has at most twenty sessions", () =>
      Effect.gen(function* () {
        const { key, url } = yield* Countersign
        const secret = yield* key({ preset: "reviewer", name: "Eve" }, "many sessions")
        const status = (cookie: string) =>
          Effect.map(
            send("/console/api/v1/agent-approvals", { headers: { cookie, ...sameOrigin(url) } }),
            (answer) => answer.status
          )
        const first = cookieOf(yield* signIn(secret))
        const second = cookieOf(yield* signIn(secret, { cookie: first }))
        assert.deepStrictEqual([yield* status(first), yield* status(second)], [401, 200])
        for (let count = 1; count < MAX_SESSIONS_PER_KEY; count++) yield* signIn(secret)
        assert.strictEqual(yield* status(second), 200)
        yield* signIn(secret)
        assert.strictEqual(yield* status(second), 401)
      })
    )

    it.effect("a session ends with the revocation of its key, by signing out and by expiry", () =>
      Effect.gen(function* () {
        const { key, client, url } = yield* Countersign
        const sql = yield* SqlClient.SqlClient
        const admin = yield* client()
        const headers = (cookie: string) => ({ cookie, ...sameOrigin(url) })
        const status = (cookie: string) =>
          Effect.map(
            send("/console/api/v1/agent-approvals", { headers: headers(cookie) }),
            (answer) => answer.status
          )

        const { key: made, secret } = yield* admin.apiKeys.create({
          payload: { name: "Bob", preset: "reviewer" }
        })
        const revoked = cookieOf(yield* signIn(Redacted.make(secret)))
        assert.strictEqual(yield* status(revoked), 200)
        yield* admin.apiKeys.revoke({ params: { id: made.id } })
        assert.strictEqual(yield* status(revoked), 401)

        const secretOfAda = yield* key({ preset: "reviewer" })
        const signedOut = cookieOf(yield* signIn(secretOfAda))
        const other = cookieOf(yield* signIn(secretOfAda))
        const out = yield* send("/console/session", { method: "DELETE", headers: headers(signedOut) })
        assert.strictEqual(out.status, 204)
        for (const cookie of out.headers.getSetCookie()) assert.include(cookie, "Max-Age=0")
        assert.strictEqual(yield* status(signedOut), 401)
        assert.strictEqual(yield* status(other), 200)

        yield* sql`UPDATE console_sessions SET expires_at = now() - interval '1 second'`
        assert.strictEqual(yield* status(other), 401)
        const who = yield* send("/console/session", { headers: headers(other) })
        assert.deepStrictEqual([who.status, who.body], [200, { value: null }])
      }).pipe(Effect.orDie)
    )
  })

  describe("an open stream", () => {
    /** Opens the inbox stream and waits for its first bytes. `ended` completes when the stream ends. */
    const openStream = (cookie: string) =>
      Effect.gen(function* () {
        const { url } = yield* Countersign
        const started = yield* Deferred.make<void>()
        const fiber = yield* Effect.forkScoped(
          Effect.promise(async (signal) => {
            const answer = await fetch(`${url}/console/inbox/stream`, { headers: { cookie }, signal })
            const body = answer.body?.getReader()
            for (let part = await body?.read(); part?.done === false; part = await body?.read()) {
              Deferred.doneUnsafe(started, Effect.void)
            }
          })
        )
        yield* Deferred.await(started)
        return { ended: Fiber.join(fiber) }
      })

    it.effect("a response names the key of the session, so that a page of another key discards it", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const admin = yield* client()
        const { key: made, secret } = yield* admin.apiKeys.create({
          payload: { name: "Eve", preset: "reviewer" }
        })
        const cookie = cookieOf(yield* signIn(Redacted.make(secret)))
        for (const path of ["/console/inbox", "/console/api/v1/agent-approvals"]) {
          const { headers, status } = yield* send(path, { headers: { cookie } })
          assert.deepStrictEqual([status, headers.get("x-countersign-key")], [200, made.id])
        }
      }).pipe(Effect.orDie)
    )

    it.effect("a stream that names another session than that of its cookie is refused", () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const secret = yield* key({ preset: "reviewer" })
        const before = yield* signIn(secret)
        const now = yield* signIn(secret)
        const path = `/console/inbox/stream?console_session=${String(before.body["id"])}`
        const refused = yield* send(path, { headers: { cookie: cookieOf(now) } })
        assert.strictEqual(refused.status, 401)
      }).pipe(Effect.orDie)
    )

    it.effect(
      "a stream ends when its session is signed out, here or on another replica, or its key is revoked",
      () =>
        Effect.gen(function* () {
          const { client, url } = yield* Countersign
          const sessions = yield* ConsoleSessions
          const sql = yield* SqlClient.SqlClient
          const admin = yield* client()
          const { key: made, secret } = yield* admin.apiKeys.create({
            payload: { name: "Bob", preset: "reviewer" }
          })
          const signedInAgain = Effect.map(signIn(Redacted.make(secret)), cookieOf)
          const here = yield* signedInAgain
          const elsewhere = yield* signedInAgain
          const last = yield* signedInAgain
          const [tab, secondTab, otherReplica, rest] = yield* Effect.all([
            openStream(here),
            openStream(here),
            openStream(elsewhere),
            openStream(last)
          ])
          yield* send("/console/session", { method: "DELETE", headers: { cookie: here, ...sameOrigin(url) } })
          yield* Effect.all([tab.ended, secondTab.ended])

          // Another replica signed the session out: the poll finds it.
          yield* sql`
          DELETE FROM console_sessions
          WHERE digest = sha256(convert_to(${elsewhere.split(".")[1] ?? ""}, 'UTF8'))
        `
          yield* sessions.check
          yield* otherReplica.ended
          yield* admin.apiKeys.revoke({ params: { id: made.id } })
          yield* sessions.check
          yield* rest.ended
        }).pipe(Effect.scoped, Effect.orDie)
    )
  })

  describe("the page", () => {
    it.effect("the page has a policy without inline code and framing", () =>
      Effect.gen(function* () {
        const answer = yield* send("/console/approvals")
        const policy = answer.headers.get("content-security-policy") ?? ""
        for (const part of [
          "default-src 'none'",
          "script-src 'self'",
          "connect-src 'self'",
          "frame-ancestors 'none'"
        ]) {
          assert.include(policy, part)
        }
        assert.notMatch(policy, /unsafe|nonce|https?:|\*/)
        assert.strictEqual(answer.headers.get("x-content-type-options"), "nosniff")
      })
    )

    it.effect("unknown API paths and files answer 404 instead of the page", () =>
      Effect.gen(function* () {
        for (const path of ["/console/api/v1/nonsense", "/console/assets/nonsense.js"]) {
          const answer = yield* send(path)
          assert.deepStrictEqual([answer.status, answer.body["code"]], [404, "NOT_FOUND"], path)
        }
      })
    )
  })
})

layer(service({ environment: { COUNTERSIGN_RATE_LIMIT_PER_SECOND: "5" } }), { excludeTestServices: true })(
  "Console with a rate limit",
  (it) => {
    it.effect("a flood of unknown sessions reaches neither the database nor an open session", () =>
      Effect.gen(function* () {
        const cookie = yield* cookieFor({ preset: "reviewer" })
        const get = (headers: Record<string, string>) => send("/console/session", { headers })
        assert.isNotNull((yield* get({ cookie })).body["key"])
        const flood = yield* Effect.all(
          Array.from({ length: 40 }, (_, index) => {
            const unknown = String(index).padStart(43, "0")
            return get({ cookie: `__Host-countersign=org_${"0".repeat(32)}.${unknown}` })
          }),
          { concurrency: 40 }
        )
        assert.isAbove(flood.filter(({ status }) => status === 429).length, 20)
        const { url } = yield* Countersign
        const out = yield* Effect.all(
          Array.from({ length: 20 }, (_, index) => {
            const unknown = String(index).padStart(43, "1")
            const headers = {
              ...sameOrigin(url),
              cookie: `__Host-countersign=org_${"0".repeat(32)}.${unknown}`
            }
            return send("/console/session", { method: "DELETE", headers })
          }),
          { concurrency: 20 }
        )
        assert.isAbove(out.filter(({ status }) => status === 429).length, 0)
        const during = yield* get({ cookie })
        assert.strictEqual(during.status, 200)
        assert.isDefined(during.body["key"])
      })
    )
  }
)
