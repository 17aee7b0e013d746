import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { IDLE_HEADER } from "../../../../src/api/Console.ts"
import { ConsoleSessions } from "../../../../src/server/console/ConsoleSessions.ts"
import { MAX_SESSIONS_PER_KEY } from "../../../../src/server/console/ConsoleSessions/rows.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { send, service } from "../../../support/service.ts"

/** A browser that signed in with a key; returns its requests. */
const browser = (secret: Redacted.Redacted) =>
  Effect.gen(function* () {
    const { url } = yield* Countersign
    const origin = { origin: url.replace("http:", "https:"), "sec-fetch-site": "same-origin" }
    const answer = yield* send("/console/session", {
      method: "POST",
      headers: origin,
      body: JSON.stringify({ key: Redacted.value(secret) })
    })
    const cookie = answer.headers.getSetCookie()[0]?.split(";")[0] ?? ""
    return {
      cookie,
      id: String(answer.body["id"]),
      request: (path: string, method = "GET", headers: Record<string, string> = {}) =>
        send(path, { method, headers: { cookie, ...origin, ...headers } })
    }
  })

/** Opens the inbox stream of a session and waits for its first bytes. The fiber ends with the stream. */
const openStream = Effect.fnUntraced(function* (cookie: string) {
  const { url } = yield* Countersign
  const opened = yield* Deferred.make<void>()
  const stream = yield* Effect.forkChild(
    Effect.promise(async (signal) => {
      const answer = await fetch(`${url}/console/inbox/stream`, { headers: { cookie }, signal })
      const reader = answer.body?.getReader()
      await reader?.read()
      Deferred.doneUnsafe(opened, Effect.void)
      while ((await reader?.read())?.done === false);
    })
  )
  yield* Deferred.await(opened)
  return stream
})

/** The number of this service's sessions that a list names, and their ids and keys. */
const listed = (answer: { readonly body: Record<string, unknown> }) =>
  (Array.isArray(answer.body["sessions"]) ? answer.body["sessions"] : []).map((session: unknown) => {
    const { id, key } = Object(session)
    return [String(id), String(Object(key).name)] as const
  })

layer(service())("Console sign-ins", (it) => {
  it.effect("people list and end the sessions of their key, and admins those of the organization", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const ada = yield* key({ preset: "reviewer", name: "Ada" }, "sign-ins")
      const laptop = yield* browser(ada)
      const phone = yield* browser(ada)
      const bob = yield* browser(yield* key({ preset: "reviewer", name: "Bob" }, "sign-ins"))
      const grace = yield* browser(yield* key({ preset: "admin", name: "Grace" }, "sign-ins"))
      const stranger = yield* browser(yield* key({ preset: "admin", name: "Eve" }, "elsewhere"))

      const own = yield* laptop.request("/console/sign-ins")
      assert.deepStrictEqual(listed(own), [
        [phone.id, "Ada"],
        [laptop.id, "Ada"]
      ])
      const all = yield* grace.request("/console/sign-ins?of=organization")
      assert.deepStrictEqual(
        listed(all).map(([, name]) => name),
        ["Grace", "Bob", "Ada", "Ada"]
      )
      const denied = yield* laptop.request("/console/sign-ins?of=organization")
      assert.deepStrictEqual([denied.status, denied.body["code"]], [403, "INSUFFICIENT_SCOPE"])

      // Another key's session, of the same organization and of another, without the right to end it.
      for (const other of [laptop, stranger]) {
        assert.strictEqual((yield* other.request(`/console/sign-ins/${bob.id}`, "DELETE")).status, 404)
      }
      assert.strictEqual((yield* laptop.request(`/console/sign-ins/${phone.id}`, "DELETE")).status, 204)
      assert.strictEqual((yield* phone.request("/console/api/v1/agent-approvals")).status, 401)
      assert.strictEqual((yield* laptop.request("/console/api/v1/agent-approvals")).status, 200)
      assert.strictEqual((yield* grace.request(`/console/sign-ins/${bob.id}`, "DELETE")).status, 204)
      assert.strictEqual((yield* bob.request("/console/api/v1/agent-approvals")).status, 401)
      const { body } = yield* grace.request("/console/api/v1/audit-log?action=console.signed_out")
      const entries = Array.isArray(body["entries"])
        ? body["entries"].map((entry: unknown) => Object(entry))
        : []
      assert.deepStrictEqual(
        entries.map(({ actor, detail }) => [actor.name, detail.session_id]),
        [
          ["Grace", bob.id],
          ["Ada", phone.id]
        ]
      )
    })
  )

  it.effect("a key that may only manage keys does not end the sessions of a key with more rights", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const grace = yield* browser(yield* key({ preset: "admin", name: "Grace" }, "lockout"))
      const secret = yield* key({ scopes: ["keys.write"], name: "clerk" }, "lockout")
      const clerk = yield* browser(secret)
      const other = yield* browser(secret)
      const colleague = yield* browser(yield* key({ scopes: ["keys.write"], name: "colleague" }, "lockout"))
      const denied = yield* clerk.request(`/console/sign-ins/${grace.id}`, "DELETE")
      assert.deepStrictEqual([denied.status, denied.body["code"]], [403, "INSUFFICIENT_SCOPE"])
      assert.strictEqual((yield* grace.request("/console/sign-ins")).status, 200)
      for (const session of [other, colleague, clerk]) {
        assert.strictEqual((yield* clerk.request(`/console/sign-ins/${session.id}`, "DELETE")).status, 204)
        assert.strictEqual((yield* session.request("/console/sign-ins")).status, 401)
      }
      const { body } = yield* grace.request("/console/api/v1/audit-log?action=console.signed_out")
      assert.lengthOf(Object(body["entries"]), 3)
    })
  )

  it.effect(
    "a session ends an hour after its user was last active, a page that refreshes itself does not count",
    () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const session = yield* browser(yield* key({ preset: "reviewer" }, "idle"))
        const status = (headers?: Record<string, string>) =>
          Effect.map(
            session.request("/console/api/v1/agent-approvals", "GET", headers),
            ({ status }) => status
          )
        const refresh = status({ [IDLE_HEADER]: "1" })

        yield* TestClock.adjust("59 minutes")
        assert.strictEqual(yield* status(), 200)
        yield* TestClock.adjust("59 minutes")
        assert.strictEqual(yield* refresh, 200)
        yield* TestClock.adjust("1 minute")
        assert.strictEqual(yield* refresh, 401)
        assert.strictEqual(yield* status(), 401)
      })
  )

  it.effect("the stream of an idle session ends", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const { cookie } = yield* browser(yield* key({ preset: "reviewer" }, "idle stream"))
      const stream = yield* openStream(cookie)
      const { check } = yield* ConsoleSessions
      yield* TestClock.adjust("59 minutes")
      assert.strictEqual(yield* check, 0)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* check, 1)
      yield* Fiber.join(stream)
    })
  )

  it.effect("a token whose session was ended is limited like an unknown one from its next request on", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const secret = yield* key({ preset: "reviewer" }, "ended tokens")
      const sessions = yield* ConsoleSessions
      const from = { address: "127.0.0.1", userAgent: undefined }
      const open = sessions.open(secret, { ...from, admit: Effect.void, request: () => Effect.void })
      /** How many requests of a token were limited before its session was looked up. */
      const limited = Effect.fnUntraced(function* (token: Redacted.Redacted) {
        let count = 0
        const admit = Effect.sync(() => void count++)
        yield* Effect.exit(sessions.find(token, { address: "127.0.0.1", isActive: true, admit }))
        return count
      })
      const ended = yield* open
      assert.strictEqual(yield* limited(ended.token), 0)
      const { principal } = yield* sessions.find(ended.token, {
        address: "127.0.0.1",
        isActive: true,
        admit: Effect.void
      })
      yield* sessions.end(principal, ended.session.id)
      assert.strictEqual(yield* limited(ended.token), 1)
      const oldest = yield* open
      yield* TestClock.adjust("1 second")
      for (let count = 1; count <= MAX_SESSIONS_PER_KEY; count++) yield* open
      assert.strictEqual(yield* limited(oldest.token), 1)
    })
  )

  it.effect("a sign-in beyond the limit ends the stream of the session that it ends, without the poll", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const secret = yield* key({ preset: "reviewer" }, "limit stream")
      const oldest = yield* openStream((yield* browser(secret)).cookie)
      yield* TestClock.adjust("1 second")
      const next = yield* openStream((yield* browser(secret)).cookie)
      for (let count = 2; count <= MAX_SESSIONS_PER_KEY; count++) yield* browser(secret)
      // The poll finds no ended session that is still open.
      assert.strictEqual(yield* (yield* ConsoleSessions).check, 0)
      yield* Fiber.join(oldest)
      yield* Fiber.interrupt(next)
    })
  )
})

layer(service({ environment: { COUNTERSIGN_CONSOLE_IDLE_MINUTES: "0" } }))(
  "Console without idle limit",
  (it) => {
    it.effect("a session lasts eight hours", () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const session = yield* browser(yield* key({ preset: "reviewer" }))
        yield* TestClock.adjust("479 minutes")
        assert.strictEqual((yield* session.request("/console/sign-ins")).status, 200)
        yield* TestClock.adjust("1 minute")
        assert.strictEqual((yield* session.request("/console/sign-ins")).status, 401)
      })
    )
  }
)
