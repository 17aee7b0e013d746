import { assert, layer } from "@effect/vitest"
import { DateTime, Deferred, Effect, Fiber, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { SqlClient } from "effect/sql"
import type { NewFeedbackToken } from "../../../src/api/Feedback.ts"
import { deleteExpired } from "../../../src/server/deletion/RowRetention.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { eventually } from "../../support/eventually.ts"
import { createDesk } from "../../support/feedback.ts"
import { type Answer, send, service } from "../../support/service.ts"

const ORIGIN = "https://app.example.com"

/** A desk with one run, a server's key and a function that creates tokens with it. */
const createPage = Effect.fnUntraced(function* (organization: string) {
  const countersign = yield* Countersign
  const desk = yield* createDesk(organization)
  const trace_id = yield* desk.run("where is my parcel")
  const server = yield* countersign.client({ preset: "end_user_feedback", name: "web" }, organization)
  const grant = (payload?: NewFeedbackToken) =>
    server.feedback.createToken({ params: { id: trace_id }, payload: payload ?? {} })
  const stored = Effect.map(
    desk.admin.feedback.list({ query: { inference_log_id: trace_id } }),
    ({ feedback }) => feedback
  )
  return { ...desk, trace_id, server, grant, stored }
})

interface Submission {
  readonly token: string
  readonly url: string
  readonly body?: unknown
  readonly origin?: string
}

/** Sends feedback as a browser does, or without `origin` as an app does. */
const submit = ({
  body = { score: 1 },
  origin,
  token,
  url
}: Submission): Effect.Effect<Answer, never, Countersign> =>
  send(new URL(url).pathname, {
    method: "POST",
    key: token,
    body: JSON.stringify(body),
    ...(origin === undefined ? {} : { headers: { origin } })
  })

const codeOf = ({ body: { code }, status }: Answer): string =>
  typeof code === "string" ? `${status} ${code}` : String(status)

const CORS = /^(access-control-|vary$)/

/** The headers of CORS, apart from an authentication challenge. */
const corsHeaders = ({ headers }: Answer): Record<string, string> =>
  Object.fromEntries([...headers].filter(([name]) => CORS.test(name)))

layer(service(), { excludeTestServices: true })("FeedbackTokens", (it) => {
  it.effect("an end user's feedback is stored with the pseudonym, and the response has no content", () =>
    Effect.gen(function* () {
      const { grant, stored, task, trace_id } = yield* createPage("submitted")
      const created = yield* grant({ end_user_id: "customer-4711", score_labels: ["too long"] })
      assert.match(created.end_user ?? "", /^eu_[0-9a-f]{32}$/)
      assert.strictEqual(new URL(created.url).pathname, `/v1/runs/${trace_id}/end-user-feedback`)
      const secret = ["sk", "live", "4eC39HqLyjWDarjtT1zdp7dc"].join("_")
      const forged = yield* submit({ ...created, body: { score: 1, end_user_id: "somebody else" } })
      assert.strictEqual(forged.status, 400)
      const answer = yield* submit({
        ...created,
        body: {
          score_value: 0.25,
          score_label: "too long",
          comment: `Nice, my key is ${secret}`
        }
      })
      assert.strictEqual(answer.status, 204)
      assert.deepStrictEqual(answer.body, { text: "" })
      const [record] = yield* stored
      assert.deepInclude(record, {
        task_id: task.id,
        score: 0,
        score_value: 0.25,
        score_label: "too long",
        comment: "Nice, my key is [REDACTED]",
        redaction_warning: "Protected values were removed from #/comment",
        source: "feedback_token",
        end_user: created.end_user,
        status: "recorded",
        correction: null
      })
      assert.strictEqual(record?.created_by.name, "web")
      // The same user has the same pseudonym, in this organization only.
      assert.strictEqual((yield* grant({ end_user_id: "customer-4711" })).end_user, created.end_user)
      assert.notStrictEqual((yield* grant({ end_user_id: "customer-4712" })).end_user, created.end_user)
      const other = yield* createPage("submitted elsewhere")
      assert.notStrictEqual((yield* other.grant({ end_user_id: "customer-4711" })).end_user, created.end_user)
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ readonly text: string }>`
        SELECT string_agg(feedback::text, ' ') AS text FROM feedback
      `
      assert.notInclude(row?.text ?? "", "customer-4711")
    })
  )

  it.effect("a feedback token is accepted by one operation, for its run only", () =>
    Effect.gen(function* () {
      const page = yield* createPage("one operation")
      const { token, url } = yield* page.grant()
      const otherRun = yield* page.run("another")
      const foreign = yield* createPage("one operation elsewhere")
      const paths = [otherRun, foreign.trace_id, "0".repeat(32)].map((id) => url.replace(page.trace_id, id))
      const refusals = yield* Effect.forEach(paths, (path) => submit({ token, url: path }))
      assert.deepStrictEqual(
        refusals.map(codeOf),
        paths.map(() => "401 INVALID_FEEDBACK_TOKEN")
      )
      // A run of the organization, one of another and none look the same.
      const details = new Set(refusals.map(({ body }) => JSON.stringify({ ...body, request_id: "" })))
      assert.strictEqual(details.size, 1)
      for (const [method, path] of [
        ["GET", "/v1/feedback"],
        ["POST", "/v1/feedback"],
        ["GET", `/v1/runs/${page.trace_id}`],
        ["POST", `/v1/runs/${page.trace_id}/feedback-token`],
        ["GET", "/v1/feedback-settings"],
        ["GET", "/v1/tasks"]
      ] as const) {
        const answer = yield* send(path, {
          method,
          key: token,
          headers: { origin: ORIGIN },
          ...(method === "POST" ? { body: "{}" } : {})
        })
        assert.strictEqual(codeOf(answer), "401 INVALID_API_KEY", path)
      }
      // Nor does the operation take an API key.
      const key = yield* (yield* Countersign).key({}, "one operation")
      assert.strictEqual(
        codeOf(yield* submit({ url, token: Redacted.value(key) })),
        "401 INVALID_FEEDBACK_TOKEN"
      )
      assert.lengthOf(yield* page.stored, 0)
    })
  )

  it.effect("a token that was changed, or that another master key signed, is refused", () =>
    Effect.gen(function* () {
      const { grant, stored } = yield* createPage("forged")
      const { token, url } = yield* grant({ max_uses: 1 })
      const [claims = "", key = "", mac = ""] = token.split(".")
      const decoded = Buffer.from(claims.slice(4), "base64url").toString("utf8")
      const more = `cft_${Buffer.from(decoded.replace('"max_uses":1', '"max_uses":9')).toString("base64url")}`
      assert.notStrictEqual(more, claims)
      const flipped = `${mac.startsWith("A") ? "B" : "A"}${mac.slice(1)}`
      for (const forged of [
        `${more}.${key}.${mac}`,
        `${claims}.${key}.${flipped}`,
        `${claims}.${key}.${mac}=`,
        `${claims}.${key}.`,
        `${claims}.${"0".repeat(16)}.${mac}`,
        `${token}.`,
        claims,
        "cft_",
        "x"
      ]) {
        assert.strictEqual(
          codeOf(yield* submit({ url, token: forged })),
          "401 INVALID_FEEDBACK_TOKEN",
          forged
        )
      }
      assert.lengthOf(yield* stored, 0)
      assert.strictEqual((yield* submit({ token, url })).status, 204)
    })
  )

  it.effect("feedback that is sent again is stored once, and beyond its uses a token is refused", () =>
    Effect.gen(function* () {
      const { grant, stored } = yield* createPage("uses")
      const granted = yield* grant({ max_uses: 2 })
      const first = { ...granted, body: { score: -1, comment: "no" } }
      assert.strictEqual((yield* submit(first)).status, 204)
      assert.strictEqual((yield* submit(first)).status, 204)
      assert.lengthOf(yield* stored, 1)
      const second = { ...granted, body: { score: 1, comment: "now it is right" } }
      assert.strictEqual((yield* submit(second)).status, 204)
      assert.strictEqual(codeOf(yield* submit(first)), "401 INVALID_FEEDBACK_TOKEN")
      // The last one again, as a browser does that did not get the response.
      assert.strictEqual((yield* submit(second)).status, 204)
      assert.deepStrictEqual(
        (yield* stored).map(({ score }) => score),
        [1, -1]
      )
    })
  )

  it.effect("feedback waits while another transaction has locked the end user's earlier opinion", () =>
    Effect.gen(function* () {
      const { grant, stored, trace_id } = yield* createPage("locked")
      const ann = yield* grant({ end_user_id: "ann" })
      assert.strictEqual((yield* submit(ann)).status, 204)
      const [first] = yield* stored
      const sql = yield* SqlClient.SqlClient
      const [locked, release] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const locking = yield* Effect.forkChild(
        transaction(
          sql`SELECT 1 FROM feedback WHERE feedback_id = ${first?.id} FOR UPDATE`.pipe(
            Effect.andThen(Deferred.succeed(locked, undefined)),
            Effect.andThen(Deferred.await(release))
          )
        )
      )
      yield* Deferred.await(locked)
      const [run] = yield* sql<{ readonly xmax: string }>`
        SELECT xmax::text FROM runs WHERE trace_id = ${trace_id}
      `
      const waiting = yield* Effect.forkChild(submit({ ...ann, body: { score: -1 } }))
      // The first attempt has changed the run, and has ended, so that its lock is free.
      yield* eventually(
        sql`SELECT FROM runs WHERE trace_id = ${trace_id} AND xmax::text <> ${run?.xmax} FOR UPDATE`,
        (rows) => rows.length > 0
      )
      yield* Deferred.succeed(release, undefined)
      yield* Fiber.join(locking)
      assert.strictEqual((yield* Fiber.join(waiting)).status, 204)
      assert.deepStrictEqual(
        (yield* stored).map(({ current, score }) => [score, current]),
        [
          [-1, true],
          [1, false]
        ]
      )
    })
  )

  it.effect("a token ends with the key that created it, and with its run", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const { admin, grant, stored, trace_id } = yield* createPage("revoked")
      const granted = yield* grant()
      const secret = yield* countersign.key({ preset: "end_user_feedback", name: "revoked web" }, "revoked")
      const other = yield* countersign.clientWith(secret)
      const revoked = yield* other.feedback.createToken({ params: { id: trace_id }, payload: {} })
      const { keys } = yield* admin.apiKeys.list({ query: {} })
      const key = keys.find(({ name }) => name === "revoked web")
      assert.isDefined(key)
      if (key !== undefined) yield* admin.apiKeys.revoke({ params: { id: key.id }, query: {} })
      assert.strictEqual(codeOf(yield* submit(revoked)), "401 INVALID_FEEDBACK_TOKEN")
      assert.strictEqual((yield* submit(granted)).status, 204)
      assert.lengthOf(yield* stored, 1)
      const sql = yield* SqlClient.SqlClient
      yield* sql`DELETE FROM runs WHERE trace_id = ${trace_id}`
      assert.strictEqual(
        codeOf(yield* submit({ ...granted, body: { score: 0 } })),
        "401 INVALID_FEEDBACK_TOKEN"
      )
    })
  )

  it.effect("a token expires no later than the key that creates it", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const { trace_id } = yield* createPage("expiring")
      const key_expires_at = DateTime.makeUnsafe(Math.floor(Date.now() / 1000) * 1000 + 600_000)
      const server = yield* countersign.client(
        { preset: "end_user_feedback", expires_at: key_expires_at },
        "expiring"
      )
      const grant = (expires_in_seconds: number) =>
        server.feedback.createToken({ params: { id: trace_id }, payload: { expires_in_seconds } })
      const long = yield* grant(3_600)
      assert.strictEqual(long.expires_at.epochMilliseconds, key_expires_at.epochMilliseconds)
      const short = yield* grant(60)
      assert.isBelow(short.expires_at.epochMilliseconds, key_expires_at.epochMilliseconds)
    })
  )

  it.effect("a run takes a limited amount of feedback from all of its tokens", () =>
    Effect.gen(function* () {
      const { grant, stored, trace_id } = yield* createPage("full run")
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE runs SET end_user_feedback = 99 WHERE trace_id = ${trace_id}`
      const [one, two] = [yield* grant(), yield* grant()]
      assert.strictEqual((yield* submit(one)).status, 204)
      assert.strictEqual(codeOf(yield* submit(two)), "409 LIMIT_REACHED")
      assert.lengthOf(yield* stored, 1)
      // The refused feedback used up nothing.
      yield* sql`UPDATE runs SET end_user_feedback = 0 WHERE trace_id = ${trace_id}`
      for (const score of [1, 0, -1]) {
        assert.strictEqual((yield* submit({ ...two, body: { score } })).status, 204)
      }
    })
  )

  it.effect("only the labels of the token and scores of the contract are accepted, with their pointers", () =>
    Effect.gen(function* () {
      const { grant, stored } = yield* createPage("labels")
      const granted = yield* grant({ score_labels: ["too long"] })
      for (const [body, pointer] of [
        [{}, "#/score"],
        [{ score: 2 }, "#/score"],
        [{ score_value: 1.5 }, "#/score_value"],
        [{ score: 1, score_label: "rude" }, "#/score_label"],
        [{ score: 1, comment: "x".repeat(4_001) }, "#/comment"]
      ] as const) {
        const answer = yield* submit({ ...granted, body })
        assert.strictEqual(answer.status, 400, pointer)
        assert.strictEqual(answer.errors[0]?.pointer, pointer)
      }
      const large = yield* submit({ ...granted, body: { score: 1, more: "x".repeat(40_000) } })
      assert.strictEqual(codeOf(large), "413 PAYLOAD_TOO_LARGE")
      assert.lengthOf(yield* stored, 0)
    })
  )

  it.effect("a key for end users' feedback gives feedback and creates tokens, and does nothing else", () =>
    Effect.gen(function* () {
      const { server, stored, task, trace_id } = yield* createPage("scope")
      yield* server.feedback.create({
        payload: { inference_log_id: trace_id, score_value: -0.5, end_user_id: "customer-4711" }
      })
      assert.deepInclude((yield* stored)[0], { score: -1, score_value: -0.5, source: "api_key" })
      const params = { id: task.id }
      for (const call of [
        Effect.asVoid(server.feedback.list({})),
        Effect.asVoid(server.feedback.getQuality({ params, query: {} })),
        Effect.asVoid(server.tasks.get({ params })),
        Effect.asVoid(server.runs.get({ params: { id: trace_id } })),
        Effect.asVoid(server.feedbackSettings.get({}))
      ]) {
        assert.strictEqual((yield* Effect.flip(call))._tag, "INSUFFICIENT_SCOPE")
      }
      const foreign = yield* createPage("scope elsewhere")
      const refused = server.feedback.createToken({ params: { id: foreign.trace_id }, payload: {} })
      assert.strictEqual((yield* Effect.flip(refused))._tag, "NOT_FOUND")
    })
  )
})

layer(service(), { excludeTestServices: true })("FeedbackTokens › CORS", (it) => {
  it.effect("a page of an allowed origin may send feedback and read the response, and others may not", () =>
    Effect.gen(function* () {
      const { admin, grant, stored } = yield* createPage("cors")
      const granted = yield* grant()
      const page = { ...granted, origin: ORIGIN }
      // No page may before an origin is allowed; an app without an origin may.
      const before = yield* submit(page)
      assert.strictEqual(codeOf(before), "403 ORIGIN_NOT_ALLOWED")
      assert.deepStrictEqual(corsHeaders(before), { vary: "Origin" })
      const settings = yield* admin.feedbackSettings.replace({
        payload: { allowed_origins: [ORIGIN, "http://localhost:3000"] }
      })
      assert.strictEqual(settings.revision, 1)
      const answer = yield* submit(page)
      assert.strictEqual(answer.status, 204)
      assert.deepStrictEqual(corsHeaders(answer), { "access-control-allow-origin": ORIGIN, vary: "Origin" })
      // A page may read why its feedback was refused.
      const refused = yield* submit({ ...page, body: { score: 7 } })
      assert.strictEqual(refused.status, 400)
      assert.deepStrictEqual(corsHeaders(refused), { "access-control-allow-origin": ORIGIN, vary: "Origin" })
      for (const origin of [
        "https://app.example.com.evil.example",
        "http://app.example.com",
        "https://APP.example.com",
        "https://app.example.com:8443",
        "https://app.example.com/",
        "null",
        "*"
      ]) {
        const other = yield* submit({ ...granted, origin, body: { score: 0 } })
        assert.strictEqual(codeOf(other), "403 ORIGIN_NOT_ALLOWED", origin)
        assert.deepStrictEqual(corsHeaders(other), { vary: "Origin" })
      }
      const foreign = yield* (yield* createPage("cors elsewhere")).grant()
      assert.strictEqual(codeOf(yield* submit({ ...foreign, origin: ORIGIN })), "403 ORIGIN_NOT_ALLOWED")
      assert.lengthOf(yield* stored, 1)
      yield* admin.feedbackSettings.replace({ payload: { allowed_origins: [] } })
      assert.strictEqual(codeOf(yield* submit(page)), "403 ORIGIN_NOT_ALLOWED")
    })
  )

  it.effect("a preflight tells nothing about an organization, and allows no credentials", () =>
    Effect.gen(function* () {
      const { grant } = yield* createPage("preflight")
      const { url } = yield* grant()
      const preflight = (path: string, origin: string) =>
        send(path, {
          method: "OPTIONS",
          headers: {
            origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type"
          }
        })
      const answer = yield* preflight(new URL(url).pathname, ORIGIN)
      assert.strictEqual(answer.status, 204)
      assert.deepStrictEqual(corsHeaders(answer), {
        "access-control-allow-headers": "authorization, content-type",
        "access-control-allow-methods": "POST",
        "access-control-allow-origin": ORIGIN,
        "access-control-max-age": "600",
        vary: "Origin"
      })
      const unknown = yield* preflight(`/v1/runs/${"0".repeat(32)}/end-user-feedback`, ORIGIN)
      assert.deepStrictEqual(corsHeaders(unknown), corsHeaders(answer))
      assert.deepStrictEqual(corsHeaders(yield* preflight(new URL(url).pathname, "null")), { vary: "Origin" })
    })
  )

  it.effect("no other route has headers of CORS, whatever the origin", () =>
    Effect.gen(function* () {
      const { admin, trace_id } = yield* createPage("other routes")
      yield* admin.feedbackSettings.replace({ payload: { allowed_origins: [ORIGIN] } })
      const key = yield* (yield* Countersign).key({}, "other routes")
      for (const [method, path] of [
        ["GET", "/v1/feedback"],
        ["OPTIONS", "/v1/feedback"],
        ["POST", "/v1/feedback"],
        ["OPTIONS", `/v1/runs/${trace_id}/feedback-token`],
        ["GET", `/v1/runs/${trace_id}/end-user-feedback`],
        ["GET", "/openapi.json"],
        ["OPTIONS", "/leaked-keys"],
        ["GET", "/nothing"]
      ] as const) {
        const answer = yield* send(path, { method, key, headers: { origin: ORIGIN } })
        const headers = corsHeaders(answer)
        assert.notProperty(headers, "access-control-allow-origin", `${method} ${path}`)
        assert.notProperty(headers, "access-control-allow-methods", `${method} ${path}`)
      }
      const wrongMethod = yield* send(`/v1/runs/${trace_id}/end-user-feedback`, { method: "GET" })
      assert.strictEqual(codeOf(wrongMethod), "405 METHOD_NOT_ALLOWED")
    })
  )

  it.effect("origins are those that browsers send, and a stale revision is refused", () =>
    Effect.gen(function* () {
      const { admin } = yield* createPage("origins")
      const key = yield* (yield* Countersign).key({}, "origins")
      for (const origin of [
        "*",
        "null",
        "https://*.example.com",
        "https://app.example.com/",
        "https://app.example.com/path",
        "https://APP.example.com",
        "https://app.example.com:443",
        "http://app.example.com",
        "ftp://app.example.com",
        "https://user@app.example.com",
        "app.example.com",
        ""
      ]) {
        const answer = yield* send("/v1/feedback-settings", {
          method: "PUT",
          key,
          body: JSON.stringify({ allowed_origins: [ORIGIN, origin] })
        })
        assert.strictEqual(answer.status, 400, origin)
        assert.strictEqual(answer.errors[0]?.pointer, "#/allowed_origins/1", origin)
      }
      assert.deepStrictEqual(yield* admin.feedbackSettings.get({}), { allowed_origins: [], revision: 0 })
      yield* admin.feedbackSettings.replace({ payload: { allowed_origins: [ORIGIN], revision: 0 } })
      const refused = yield* Effect.flip(
        admin.feedbackSettings.replace({ payload: { allowed_origins: [], revision: 0 } })
      )
      assert.strictEqual(refused._tag, "FEEDBACK_SETTINGS_CHANGED")
      assert.deepStrictEqual((yield* admin.feedbackSettings.get({})).allowed_origins, [ORIGIN])
    })
  )
})

layer(service({ environment: { COUNTERSIGN_END_USER_FEEDBACK_PER_SECOND: "2" } }), {
  excludeTestServices: true
})("FeedbackTokens › rate limits", (it) => {
  it.effect("end users' feedback has a rate per organization, which does not limit API keys", () =>
    Effect.gen(function* () {
      const { admin, grant } = yield* createPage("rate")
      const grants = yield* Effect.forEach([1, 2, 3, 4, 5, 6], () => grant())
      const answers = yield* Effect.forEach(grants, submit, { concurrency: "unbounded" })
      const refused = answers.find(({ status }) => status === 429)
      assert.strictEqual(refused?.body["code"], "RATE_LIMITED")
      assert.isDefined(refused?.headers.get("retry-after") ?? undefined)
      yield* admin.feedback.list({})
    })
  )
})

layer(service())("FeedbackTokens › expiry", (it) => {
  it.effect("a token is refused from its expiry on, and its uses are removed", () =>
    Effect.gen(function* () {
      const { grant, stored } = yield* createPage("expiry")
      const granted = yield* grant({ expires_in_seconds: 60 })
      yield* TestClock.adjust("59 seconds")
      assert.strictEqual((yield* submit(granted)).status, 204)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(
        codeOf(yield* submit({ ...granted, body: { score: 0 } })),
        "401 INVALID_FEEDBACK_TOKEN"
      )
      assert.lengthOf(yield* stored, 1)
      const sql = yield* SqlClient.SqlClient
      yield* TestClock.adjust("1 second")
      yield* deleteExpired("feedback_token_retention", 0)
      assert.lengthOf(yield* sql`SELECT 1 AS one FROM feedback_token_uses`, 0)
    })
  )
})
