import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { StepId } from "../../../src/domain/Ids.ts"
import { MAX_CONCURRENT_EXPORTS } from "../../../src/api/console/Exports.ts"
import { DELIVERIES_PAGE } from "../../../src/api/console/Deliveries.ts"
import { Authorized } from "../../../src/api/Authorization.ts"
import { Audit } from "../../../src/server/identity/Audit.ts"
import { Exports } from "../../../src/server/console/Exports.ts"
import { ApiKeys } from "../../../src/server/identity/ApiKeys.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { consoleHeaders } from "../../support/consoleCookie.ts"
import { send, service } from "../../support/service.ts"
import { sortingTask } from "../../support/tasks.ts"
import { eventually } from "../../support/eventually.ts"

const BOM = "\uFEFF"

/** An export as bytes, decoded without removing the byte order mark. */
const download = (path: string, headers: Record<string, string>) =>
  Effect.gen(function* () {
    const { url } = yield* Countersign
    return yield* Effect.promise(async () => {
      const answer = await fetch(`${url}/console/exports${path}`, { headers })
      const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(await answer.arrayBuffer())
      return { status: answer.status, headers: answer.headers, text }
    })
  })

layer(service(), { excludeTestServices: true, timeout: "120 seconds" })("Exports", (it) => {
  it.effect("sessions are exported page by page, newest first, of the own organization only", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const agent = yield* client({ preset: "runtime", name: "=cmd|' /C calc'!A0" }, "exported")
      const stranger = yield* client({ preset: "runtime" }, "elsewhere")
      yield* stranger.sessions.create({ payload: { metadata: { secret: "theirs" } } })
      const created = yield* Effect.forEach(
        Array.from({ length: 230 }, (_, n) => n),
        (n) => agent.sessions.create({ payload: { metadata: { n, note: 'a "quoted", text' } } })
      )
      const headers = yield* consoleHeaders(yield* key({}, "exported"))
      const lines = yield* download("/sessions?format=jsonl", headers)
      assert.strictEqual(lines.status, 200)
      const records = lines.text
        .trimEnd()
        .split("\n")
        .map((line): unknown => JSON.parse(line))
      assert.deepStrictEqual(
        records.map((one) => Reflect.get(Object(one), "session_id")),
        created.map(({ session_id }) => session_id).toReversed()
      )
      assert.notInclude(lines.text, "theirs")
      const closed = yield* download("/sessions?format=jsonl&status=closed", headers)
      assert.strictEqual(closed.text, "")
      const csv = yield* download("/sessions?format=csv", headers)
      assert.match(csv.headers.get("content-type") ?? "", /^text\/csv; charset=utf-8/)
      assert.match(
        csv.headers.get("content-disposition") ?? "",
        /^attachment; filename="sessions-[\dT-]+Z\.csv"$/
      )
      assert.strictEqual(csv.headers.get("cache-control"), "no-store")
      const rows = csv.text.split("\r\n")
      assert.strictEqual(
        rows[0],
        `${BOM}session_id,status,created_at,closed_at,agent,agent_key_id,task_id,trace_id,metadata`
      )
      assert.strictEqual(rows.length, 230 + 2)
      assert.include(rows[1], ",'=cmd|' /C calc'!A0,")
      assert.include(rows[1], '"{""n"":229,""note"":""a \\""quoted\\"", text""}"')
    }).pipe(Effect.orDie)
  )

  it.effect("closed approvals of every outcome are exported, and pending ones are not", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const agent = yield* client({ preset: "runtime", name: "agent" }, "closed")
      const ada = yield* client({ preset: "reviewer", name: "Ada" }, "closed")
      const { session_id } = yield* agent.sessions.create({ payload: {} })
      const ask = (step: string) =>
        agent.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make(step), tool: "pay", action_class: "write", arguments: { step } }
        })
      for (const decision of ["approve", "reject"] as const) {
        const { approval_id } = yield* ask(decision)
        if (approval_id === null) return yield* Effect.die("the step should require approval")
        yield* ada.approvals.decide({ params: { id: approval_id }, payload: { decision } })
      }
      yield* ask("open")
      const headers = yield* consoleHeaders(yield* key({ preset: "reviewer" }, "closed"))
      const { text } = yield* download("/closed-approvals?format=csv", headers)
      const [, ...rows] = text.trimEnd().split("\r\n")
      assert.deepStrictEqual(
        rows.map((row) => row.split(",").slice(1, 5)),
        [
          ["pay", "write", "rejected", "reject"],
          ["pay", "write", "approved", "allow"]
        ]
      )
      assert.include(text, '"{""step"":""approve""}"')
    }).pipe(Effect.orDie)
  )

  it.effect("the filter of the audit log applies to its export, and an export is recorded with it", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const admin = yield* key({ name: "Grace" }, "audited")
      const headers = yield* consoleHeaders(admin)
      const { text } = yield* download("/audit-log?format=jsonl&action=console.signed_in", headers)
      const entries = text
        .trimEnd()
        .split("\n")
        .map((line): unknown => JSON.parse(line))
      assert.deepStrictEqual(
        entries.map((one) => Reflect.get(Object(one), "action")),
        ["console.signed_in"]
      )
      const principal = yield* (yield* ApiKeys).verify(admin)
      const { items } = yield* Effect.provideService(
        (yield* Audit).list({ action: "list.exported" }),
        Authorized("approvals.admin"),
        principal
      )
      assert.deepStrictEqual(
        items.map(({ actor, detail, target_id }) => [actor?.name, target_id, detail]),
        [["Grace", "audit-log", { format: "jsonl", action: "console.signed_in" }]]
      )
    }).pipe(Effect.orDie)
  )

  it.effect("feedback, runs and keys are exported with the scope of their list, and not without it", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "scoped")
      const { id } = yield* admin.tasks.create({ payload: sortingTask })
      const headers = yield* consoleHeaders(yield* key({}, "scoped"))
      for (const path of [
        "/feedback?format=csv&score=1",
        `/tasks/${id}/runs?format=csv&status=failed`,
        `/tasks/${id}/runs?format=csv&awaits_review=true&score=-1&text=a`,
        "/runs?format=csv&min_duration_ms=1000",
        `/runs?format=csv&task_id=${id}&has_feedback=false`
      ]) {
        const { status, text } = yield* download(path, headers)
        assert.strictEqual(status, 200)
        assert.strictEqual(text.trimEnd().split("\r\n").length, 1)
      }
      const keys = yield* download("/keys?format=csv", headers)
      assert.strictEqual(keys.text.trimEnd().split("\r\n").length, 3)
      const runtime = yield* consoleHeaders(yield* key({ preset: "runtime", name: "agent" }, "scoped"))
      for (const path of ["/runs", "/keys", "/audit-log", "/feedback"]) {
        assert.strictEqual((yield* download(`${path}?format=csv`, runtime)).status, 403, path)
      }
      const unknown = yield* download("/tasks/tsk_00000000000000000000000000000000/runs?format=csv", headers)
      assert.strictEqual(unknown.status, 404)
      const crossSite = yield* send("/console/exports/keys?format=csv", {
        headers: { ...headers, "sec-fetch-site": "cross-site" }
      })
      assert.strictEqual(crossSite.status, 403)
    }).pipe(Effect.orDie)
  )

  it.effect(
    "deliveries, endpoints, tasks and filtered keys are exported without secrets, of the own organization",
    () =>
      Effect.gen(function* () {
        const { client, key } = yield* Countersign
        const admin = yield* client({}, "lists")
        const other = yield* client({}, "other lists")
        const secrets: Array<string> = []
        for (const [organization, text] of [
          [other, "theirs"],
          [admin, "=HYPERLINK(1)"]
        ] as const) {
          const { endpoint, secret } = yield* organization.notificationEndpoints.create({
            payload: { url: "http://127.0.0.1:9/hidden-path", description: text }
          })
          yield* organization.notificationEndpoints.test({ params: { id: endpoint.id } })
          yield* organization.tasks.create({ payload: { ...sortingTask, name: text } })
          const made = yield* organization.apiKeys.create({ payload: { name: text, preset: "runtime" } })
          secrets.push(secret, made.secret)
        }
        const headers = yield* consoleHeaders(yield* key({}, "lists"))
        const rowsOf = (text: string) => text.trimEnd().split("\r\n").slice(1)
        const endpoints = yield* download("/notification-endpoints?format=csv", headers)
        const tasks = yield* download("/tasks?format=csv", headers)
        const keys = yield* download("/keys?format=csv&status=active&name=HYPER", headers)
        for (const { text } of [endpoints, tasks, keys]) {
          assert.strictEqual(rowsOf(text).length, 1, text)
          assert.include(text, ",'=HYPERLINK(1)")
        }
        const revoked = yield* download("/keys?format=csv&status=revoked", headers)
        assert.deepStrictEqual(rowsOf(revoked.text), [])
        const deliveries = yield* download("/deliveries?format=jsonl", headers)
        const records = deliveries.text.trimEnd().split("\n")
        assert.strictEqual(records.length, 1)
        assert.include(records[0], '"type":"test"')
        const [failed, later] = [
          yield* download("/deliveries?format=jsonl&status=delivered", headers),
          yield* download("/deliveries?format=csv&since=2100-01-01T00:00:00Z", headers)
        ]
        assert.deepStrictEqual([failed.text, rowsOf(later.text)], ["", []])
        for (const { text } of [endpoints, tasks, keys, deliveries]) {
          assert.notInclude(text, "theirs")
          assert.notInclude(text, "hidden-path")
          for (const secret of secrets) assert.notInclude(text, secret)
        }
        const runtime = yield* consoleHeaders(yield* key({ preset: "runtime", name: "agent" }, "lists"))
        for (const path of ["/deliveries", "/notification-endpoints", "/keys"]) {
          assert.strictEqual((yield* download(`${path}?format=csv`, runtime)).status, 403, path)
        }
      }).pipe(Effect.orDie)
  )

  it.effect("every delivery of a filter is exported, however many pages the search for it takes", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "paged")
      const { endpoint } = yield* admin.notificationEndpoints.create({
        payload: { url: "http://127.0.0.1:9/hook" }
      })
      const { org_id } = yield* (yield* ApiKeys).verify(yield* key({}, "paged"))
      const sql = yield* SqlClient.SqlClient
      const deliveries = 2 * DELIVERIES_PAGE + 7
      yield* sql`
        INSERT INTO deliveries
          (org_id, destination_id, delivery_id, channel, event_id, label, status, attempts, status_code, created_at, finished_at)
        SELECT ${org_id}, ${endpoint.id}, 'ndl_' || lpad(to_hex(${Date.now()}::bigint - n), 12, '0') || '7000' || lpad(to_hex(n), 16, '0'),
          'webhook', 'evt_' || lpad(to_hex(n), 32, '0'), 'approval.requested apr_' || lpad(to_hex(n), 32, '0'),
          CASE WHEN n % 2 = 0 THEN 'failed' ELSE 'delivered' END, 1, 503, now(), now()
        FROM generate_series(1, ${2 * deliveries}::bigint) AS n
      `
      const headers = yield* consoleHeaders(yield* key({}, "paged"))
      const { text } = yield* download("/deliveries?format=jsonl&status=failed", headers)
      const ids = text
        .trimEnd()
        .split("\n")
        .map((line): unknown => Reflect.get(Object(JSON.parse(line)), "id"))
      assert.strictEqual(new Set(ids).size, deliveries)
    }).pipe(Effect.orDie)
  )

  it.effect("an export ends when its client leaves, and an organization has only a few at a time", () =>
    Effect.gen(function* () {
      const { key, url } = yield* Countersign
      const admin = yield* key({}, "flood")
      const { org_id, actor } = yield* (yield* ApiKeys).verify(admin)
      const exports = yield* Exports
      const sql = yield* SqlClient.SqlClient
      // More than the buffers between the database and a client that does not read.
      yield* sql`
        INSERT INTO agent_sessions (org_id, session_id, trace_id, metadata, created_at, created_by_id, created_by_name)
        SELECT ${org_id}, 'ses_' || lpad(to_hex(n), 32, '0'), lpad(to_hex(n), 32, '0'),
          jsonb_build_object('text', repeat('x', 2000)), now(), ${actor.id}, ${actor.name}
        FROM generate_series(1, 20000) AS n
      `
      const headers = yield* consoleHeaders(admin)
      const start = () =>
        Effect.promise(() => fetch(`${url}/console/exports/sessions?format=jsonl`, { headers }))
      // They are held until they are cancelled: fetch ends the connection of an answer that is garbage.
      const answers = yield* Effect.forEach(Array.from({ length: MAX_CONCURRENT_EXPORTS }), start)
      assert.deepStrictEqual(
        answers.map(({ status }) => status),
        [200, 200, 200]
      )
      assert.strictEqual(exports.running(org_id), MAX_CONCURRENT_EXPORTS)
      const refused = yield* download("/sessions?format=jsonl", headers)
      assert.deepStrictEqual([refused.status, refused.headers.get("retry-after")], [429, "10"])
      yield* Effect.forEach(answers, (answer) => Effect.promise(async () => answer.body?.cancel()))
      yield* eventually(
        Effect.sync(() => exports.running(org_id)),
        (running) => running === 0
      )
    }).pipe(Effect.orDie)
  )
})
