import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer, Logger } from "effect"
import { SqlClient } from "effect/sql"
import { StepId } from "../../../src/domain/Ids.ts"
import { TRACE_HEADER } from "../../../src/api/Tasks.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { send, service } from "../../support/service.ts"

const deep = (levels: number) => `{"metadata":{"a":${"[".repeat(levels)}${"]".repeat(levels)}}}`

/** The service's log. */
const logged: Array<string> = []
const logger = Logger.map(Logger.formatJson, (line) => void logged.push(line))

layer(service().pipe(Layer.provide(Logger.layer([logger]))), { excludeTestServices: true })(
  "ProblemFrame and Envelope",
  (it) => {
    const refused: ReadonlyArray<readonly [what: string, body: string, pointer: string | undefined]> = [
      ["no JSON", "{", "#"],
      ["nothing", "", "#"],
      ["another type", "[]", "#"],
      ["a wrong member", `{"metadata":"no object"}`, "#/metadata"],
      ["NUL in a string", `{"metadata":{"note":"a\\u0000b"}}`, undefined],
      ["too deep", deep(65), undefined],
      ["much too deep", deep(200_000), undefined]
    ]
    it.effect.each(refused)("refuses %s with a problem that names the place", ([, body, pointer]) =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        const answer = yield* send("/v1/agent-sessions", { method: "POST", key, body })
        assert.strictEqual(answer.status, 400)
        assert.strictEqual(answer.body["code"], "INVALID_REQUEST")
        assert.strictEqual(answer.headers.get("content-type"), "application/problem+json")
        assert.strictEqual(answer.body["request_id"], answer.headers.get("x-request-id"))
        if (pointer !== undefined) {
          assert.strictEqual(answer.errors[0]?.pointer ?? "#", pointer)
        }
      })
    )

    it.effect("a rejected request stores nothing", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const rows = yield* sql<{ readonly count: number }>`SELECT count(*)::int AS count FROM agent_sessions`
        assert.strictEqual(rows[0]?.count, 0)
      })
    )

    it.effect("a validation problem lists every invalid field, and no values", () =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        const body = JSON.stringify({ name: 17, scopes: ["SECRET-MARKER"], email: "SECRET-MARKER" })
        const answer = yield* send("/v1/api-keys", { method: "POST", key, body })
        assert.strictEqual(answer.status, 400)
        assert.sameMembers(
          answer.errors.map(({ pointer }) => pointer),
          ["#/name", "#/scopes/0", "#/email"]
        )
        assert.notInclude(JSON.stringify(answer.body), "SECRET-MARKER")
      })
    )

    it.effect("a secret in place of a field name is redacted", () =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        const token = "sk-proj-4f9Qz7LmX2wB8nRt6VyK1cJd"
        const body = JSON.stringify({
          url: "https://otlp.example.com",
          headers: { [`Authorization: Bearer ${token}`]: null, "x-team": 7 }
        })
        const answer = yield* send("/v1/telemetry-destinations", { method: "POST", key, body })
        assert.strictEqual(answer.status, 400)
        assert.lengthOf(answer.errors, 2)
        assert.include(
          answer.errors.map(({ pointer }) => pointer),
          "#/headers/x-team"
        )
        assert.notInclude(JSON.stringify(answer.body), token)
      })
    )

    it.effect("a field name that is too long is replaced by its parent's pointer", () =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        const body = JSON.stringify({
          url: "https://otlp.example.com",
          headers: { ["x".repeat(100_000)]: null }
        })
        const answer = yield* send("/v1/telemetry-destinations", { method: "POST", key, body })
        assert.deepStrictEqual([answer.status, answer.errors[0]?.pointer], [400, "#/headers"])
      })
    )

    it.effect("invalid UTF-8, another content type and a body over the limit are rejected", () =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        const post = { method: "POST", key }
        // JSON, if its bytes were replaced by U+FFFD.
        const body = Buffer.from('{"metadata":{"note":"\xff"}}', "latin1")
        const bytes = yield* send("/v1/agent-sessions", { ...post, body })
        assert.deepStrictEqual(
          [bytes.body["code"], bytes.body["detail"]],
          ["INVALID_REQUEST", "The body is not valid UTF-8."]
        )
        const type = yield* send("/v1/agent-sessions", {
          ...post,
          body: "a=b",
          headers: { "content-type": "application/x-www-form-urlencoded" }
        })
        assert.strictEqual(type.status, 415)
        assert.strictEqual(type.body["code"], "UNSUPPORTED_MEDIA_TYPE")
        const large = JSON.stringify({ metadata: { note: "x".repeat(1024 * 1024) } })
        const over = yield* send("/v1/agent-sessions", { ...post, body: large })
        assert.strictEqual(over.status, 413)
        assert.strictEqual(over.body["code"], "PAYLOAD_TOO_LARGE")
        const chunked = yield* send("/v1/agent-sessions", {
          ...post,
          body: new Blob([large]).stream(),
          duplex: "half"
        })
        assert.strictEqual(chunked.status, 413)
      })
    )

    it.effect("a body that a proxy could decode differently is rejected", () =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        const post = (headers: Record<string, string>) =>
          Effect.map(
            send("/v1/agent-sessions", { method: "POST", key, body: "{}", headers }),
            ({ status }) => status
          )
        const typed = (type: string) => post({ "content-type": type })
        for (const type of [
          "application/json; charset=utf-16",
          "application/json;CHARSET=latin1",
          'application/json; a=b; charset = "utf-7"',
          "application/json; charset=utf-80"
        ]) {
          assert.strictEqual(yield* typed(type), 415, type)
        }
        for (const type of [
          "application/json",
          "APPLICATION/JSON ; charset=UTF-8",
          'application/json; charset="utf-8"; a=b',
          "application/json; version=1"
        ]) {
          assert.strictEqual(yield* typed(type), 201, type)
        }
        for (const coding of ["gzip", "br", "identity, gzip"]) {
          assert.strictEqual(yield* post({ "content-encoding": coding }), 415, coding)
        }
        assert.strictEqual(yield* post({ "content-encoding": "Identity" }), 201)
      })
    )

    it.effect("the number of collected field errors is limited", () =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        const replace = (rules: number) =>
          send("/v1/approval-rules", {
            method: "PUT",
            key,
            body: JSON.stringify({ rules: Array.from({ length: rules }, () => ({})) })
          })
        const few = yield* replace(500)
        assert.deepStrictEqual([few.status, few.errors.length], [400, 20])
        assert.strictEqual(few.errors[0]?.pointer, "#/rules/0/effect")
        const many = yield* replace(90_000)
        assert.deepStrictEqual([many.status, many.errors.length], [400, 1])
        const [, index] = /^#\/rules\/(\d+)\/effect$/.exec(many.errors[0]?.pointer ?? "") ?? []
        assert.isAtMost(Number(index), 5_000)
      })
    )

    it.effect("paths are case-sensitive, and double slashes do not match", () =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        for (const path of [
          "/V1/agent-sessions",
          "/v1//agent-sessions",
          "//v1/agent-sessions",
          "/HEALTHZ",
          "/Console/api"
        ]) {
          assert.strictEqual((yield* send(path, { key })).status, 404, path)
        }
      })
    )

    it.effect("unknown paths, methods and identifiers get problems", () =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        const path = yield* send("/v1/nothing", { key })
        assert.strictEqual(path.status, 404)
        assert.strictEqual(path.body["code"], "NOT_FOUND")
        const method = yield* send("/v1/agent-sessions", { method: "PUT", key, body: "{}" })
        assert.strictEqual(method.status, 405)
        assert.strictEqual(method.body["code"], "METHOD_NOT_ALLOWED")
        assert.strictEqual(method.headers.get("allow"), "POST, GET, HEAD")
        for (const id of ["nonsense", `ses_${"0".repeat(32)}`, `apr_${"0".repeat(32)}`, "%00", "..%2f"]) {
          const answer = yield* send(`/v1/agent-sessions/${id}`, { key })
          assert.strictEqual(answer.status, 404, id)
          assert.strictEqual(answer.body["code"], "NOT_FOUND", id)
          assert.isString(answer.body["request_id"])
        }
      })
    )

    it.effect("an invalid limit or cursor is rejected", () =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        for (const query of [
          "limit=0",
          "limit=101",
          "limit=1.5",
          "limit=x",
          "cursor=x",
          "cursor=YWJj",
          "limit=1&limit=2"
        ]) {
          const answer = yield* send(`/v1/agent-sessions?${query}`, { key })
          assert.strictEqual(answer.status, 400, query)
          assert.strictEqual(answer.body["code"], "INVALID_REQUEST", query)
        }
      })
    )

    it.effect(
      "health, readiness, the OpenAPI document and the docs need no key, and metrics are disabled",
      () =>
        Effect.gen(function* () {
          assert.deepStrictEqual((yield* send("/healthz")).body, { status: "alive" })
          assert.deepStrictEqual((yield* send("/readyz")).body, { status: "ready" })
          assert.strictEqual((yield* send("/openapi.json")).body["openapi"], "3.1.0")
          assert.strictEqual((yield* send("/docs")).status, 200)
          assert.strictEqual((yield* send("/metrics")).status, 404)
          assert.match((yield* send("/healthz")).headers.get("x-request-id") ?? "", /^req_[0-9a-f]{32}$/)
        })
    )

    it.effect("a path that a proxy may not recognize as a closed one gets 404", () =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        assert.strictEqual((yield* send("/v1/api-keys", { key })).status, 200)
        for (const path of [
          "/v1/api-keys/",
          "/v1/api%2dkeys",
          "/v1/api-keys;a=b",
          "/metrics;x",
          "/readyz/"
        ]) {
          const answer = yield* send(path, { key })
          assert.strictEqual(answer.status, 404, path)
          assert.strictEqual(answer.body["code"], "NOT_FOUND", path)
        }
      })
    )

    it.effect("an unknown path is not found, whatever its method, and names no organization", () =>
      Effect.gen(function* () {
        const { body, status } = yield* send("/nothing")
        assert.strictEqual(status, 404)
        assert.strictEqual(body["title"], "Not found")
        assert.strictEqual((yield* send("/", { method: "POST" })).status, 405)
      })
    )

    it.effect("an unencoded semicolon in a step's id is part of it", () =>
      Effect.gen(function* () {
        const { clientWith, key: newKey } = yield* Countersign
        const key = yield* newKey()
        const admin = yield* clientWith(key)
        yield* admin.approvalRules.replace({ payload: { rules: [{ effect: "allow" }] } })
        const { session_id } = yield* admin.sessions.create({})
        const step_id = StepId.make("a;b")
        yield* admin.sessions.step({
          params: { id: session_id },
          payload: { step_id, tool: "documents.read", action_class: "read" }
        })
        const answer = yield* send(`/v1/agent-sessions/${session_id}/steps/a;b/outcome`, {
          method: "POST",
          key,
          body: JSON.stringify({ status: "succeeded" })
        })
        assert.strictEqual(answer.status, 200, JSON.stringify(answer.body))
        assert.strictEqual(answer.body["step_id"], step_id)
      })
    )

    it.effect("a browser that has the API reference gets 304, until it asks for another encoding", () =>
      Effect.gen(function* () {
        for (const path of ["/docs", "/openapi.json"]) {
          const encodings = yield* Effect.forEach(["br", "gzip", "identity"], (encoding) =>
            Effect.map(send(path, { headers: { "accept-encoding": encoding } }), ({ headers }) => ({
              encoding,
              sent: headers.get("content-encoding") ?? "identity",
              etag: headers.get("etag") ?? "",
              vary: headers.get("vary")
            }))
          )
          assert.strictEqual(new Set(encodings.map(({ etag }) => etag)).size, 3, path)
          for (const { encoding, etag, sent, vary } of encodings) {
            assert.strictEqual(sent, encoding)
            assert.strictEqual(vary, "accept-encoding")
            const headers = { "accept-encoding": encoding, "if-none-match": etag }
            const again = yield* send(path, { headers })
            assert.strictEqual(again.status, 304, `${path} ${encoding}`)
            assert.strictEqual(again.headers.get("etag"), etag)
            assert.strictEqual((yield* send(path, { headers: { "if-none-match": "*" } })).status, 304)
            const other = { ...headers, "accept-encoding": encoding === "br" ? "gzip" : "br" }
            assert.strictEqual((yield* send(path, { headers: other })).status, 200)
          }
        }
      })
    )

    it.effect("responses of operations are not cached, and no response's type is guessed", () =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        for (const path of ["/v1/api-keys", "/v1/tasks", "/v1/nothing"]) {
          const { headers } = yield* send(path, { key })
          assert.strictEqual(headers.get("cache-control"), "no-store", path)
          assert.strictEqual(headers.get("x-content-type-options"), "nosniff", path)
        }
      })
    )

    it.effect("the OpenAPI document has the headers of an operation and the common headers", () =>
      Effect.gen(function* () {
        for (const path of ["/openapi.json", "/docs"]) {
          const { body } = yield* send(path)
          const text = typeof body["text"] === "string" ? body["text"] : JSON.stringify(body)
          const answer =
            /"description":"A run of a task\. It is logged before the response is sent\.".{0,2000}/s.exec(
              text
            )?.[0] ?? ""
          assert.include(answer, TRACE_HEADER, path)
          assert.include(answer, "x-request-id", path)
        }
      })
    )

    it.effect("a defect gets 500 with the request id and no other information", () =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        const sql = yield* SqlClient.SqlClient
        yield* sql`ALTER TABLE agent_sessions RENAME COLUMN metadata TO elsewhere`
        const answer = yield* send("/v1/agent-sessions", { method: "POST", key, body: "{}" })
        yield* sql`ALTER TABLE agent_sessions RENAME COLUMN elsewhere TO metadata`
        assert.strictEqual(answer.status, 500)
        assert.strictEqual(answer.body["code"], "INTERNAL_ERROR")
        assert.strictEqual(answer.body["request_id"], answer.headers.get("x-request-id"))
        assert.notMatch(JSON.stringify(answer.body), /metadata|column|sql/i)
      })
    )

    it.effect("a lost database connection gets 503, and the next request succeeds", () =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        const sql = yield* SqlClient.SqlClient
        const create = send("/v1/agent-sessions", { method: "POST", key, body: "{}" })
        const lost = yield* sql.withTransaction(
          Effect.gen(function* () {
            // The request waits for this lock until its connection is terminated.
            yield* sql`LOCK TABLE agent_sessions IN ACCESS EXCLUSIVE MODE`
            const request = yield* Effect.forkChild(create)
            yield* Effect.repeat(
              sql<{ readonly ended: number }>`
              SELECT count(pg_terminate_backend(pid))::int AS ended
              FROM pg_stat_activity
              WHERE datname = current_database()
                AND wait_event_type = 'Lock'
                AND backend_type = 'client backend'
            `,
              { until: (rows) => (rows[0]?.ended ?? 0) > 0 }
            )
            return yield* Fiber.join(request)
          })
        )
        assert.strictEqual(lost.status, 503)
        assert.strictEqual(lost.body["code"], "UNAVAILABLE")
        assert.strictEqual(lost.headers.get("retry-after"), "1")
        const line = logged.find((text) => text.includes("The database is unavailable: "))
        assert.include(line, `"request_id":"${lost.headers.get("x-request-id")}"`)
        assert.strictEqual((yield* create).status, 201)
      })
    )
  }
)
