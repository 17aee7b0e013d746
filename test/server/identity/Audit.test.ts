import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Exit, Result, Stream } from "effect"
import { SqlClient } from "effect/sql"
import type { AuditEntry } from "../../../src/domain/identity/AuditEntry.ts"
import { KeyId, type OrgId, StepId } from "../../../src/domain/Ids.ts"
import { type VerifiedChain, verifyEntry } from "../../../src/domain/identity/AuditChain.ts"
import { AuditChain } from "../../../src/server/identity/AuditChain.ts"
import { Audit } from "../../../src/server/identity/Audit.ts"
import { deleteExpired } from "../../../src/server/deletion/RowRetention.ts"
import { MAX_EXAMINED_ROWS } from "../../../src/server/store/findMatches.ts"
import { atomic } from "../../../src/server/store/transaction.ts"
import { Organizations } from "../../../src/server/identity/Organizations.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { appendRows, auditRow } from "../../support/audit.ts"
import { send, service } from "../../support/service.ts"

/** The entries of an organization, newest first, as the API returns them. */
const entriesOf = (organization: string) =>
  Effect.gen(function* () {
    const countersign = yield* Countersign
    const { auditLog } = yield* countersign.client({}, organization)
    return (yield* auditLog.list({ query: { limit: 100 } })).entries
  })

const actions = (entries: ReadonlyArray<AuditEntry>): ReadonlyArray<AuditEntry["action"]> =>
  entries.map(({ action }) => action)

/** Appends entries that are some days old. */
const appendAged = Effect.fnUntraced(function* (org_id: OrgId, days: ReadonlyArray<number>) {
  const now = yield* DateTime.now
  yield* appendRows(
    yield* Effect.forEach(days, (age) => auditRow(org_id, DateTime.subtract(now, { days: age })))
  )
})

const receiver = "http://127.0.0.1:9/hook"

layer(service(), { excludeTestServices: true })("Audit", (it) => {
  it.effect("the log names who created and revoked which key, also for the operator", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const { apiKeys } = yield* countersign.client({ name: "Ann" }, "keys")
      const { key } = yield* apiKeys.create({ payload: { name: "agent", preset: "runtime" } })
      yield* apiKeys.revoke({ params: { id: key.id } })
      yield* apiKeys.revoke({ params: { id: key.id } })
      const entries = yield* entriesOf("keys")
      // The oldest entry is the creation of the key that reads them.
      assert.deepStrictEqual(actions(entries), ["key.created", "key.revoked", "key.created", "key.created"])
      const [, revoked, created, first] = entries
      assert.deepInclude(revoked, { target_id: key.id })
      assert.strictEqual(revoked?.actor?.name, "Ann")
      assert.match(revoked?.request_id ?? "", /^req_[0-9a-f]{32}$/)
      assert.deepInclude(created?.detail, { name: "agent", preset: "runtime", expires_at: null })
      assert.strictEqual(first?.actor, null)
      assert.strictEqual(first?.request_id, null)
    })
  )

  it.effect("entries are searched for words, and listed oldest first", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const { apiKeys, auditLog } = yield* countersign.client({ name: "Ann" }, "words")
      const { client } = countersign
      yield* (yield* client({}, "other words")).apiKeys.create({
        payload: { name: "payments", preset: "runtime" }
      })
      for (const name of ["payments agent", "Mail agent", "100%"]) {
        yield* apiKeys.create({ payload: { name, preset: "runtime" } })
      }
      const names = (query: { readonly text?: string; readonly order?: "oldest"; readonly limit?: number }) =>
        Effect.map(auditLog.list({ query: { action: "key.created", ...query } }), ({ entries }) =>
          entries.map(({ detail }) => detail["name"]).filter((name) => name !== "Ann")
        )
      assert.deepStrictEqual(yield* names({ text: "AGENT" }), ["Mail agent", "payments agent"])
      assert.deepStrictEqual(yield* names({ text: "agent  ann PAY" }), ["payments agent"])
      assert.deepStrictEqual(yield* names({ text: "0% " }), ["100%"])
      assert.deepStrictEqual(yield* names({ text: "%" }), ["100%"])
      assert.deepStrictEqual(yield* names({ text: "nothing" }), [])
      assert.deepStrictEqual(yield* names({ text: "agent", order: "oldest" }), [
        "payments agent",
        "Mail agent"
      ])
      // Oldest first, page by page.
      const all: Array<unknown> = []
      let cursor: AuditEntry["id"] | undefined
      do {
        const page = yield* auditLog.list({
          query: { order: "oldest", limit: 1, ...(cursor === undefined ? {} : { cursor }) }
        })
        all.push(...page.entries.map(({ id }) => id))
        cursor = page.next_cursor ?? undefined
      } while (cursor !== undefined)
      const newest = (yield* entriesOf("words")).map(({ id }) => id)
      assert.deepStrictEqual(all, newest.slice(-all.length).toReversed())
    })
  )

  it.effect(
    "a page by several filters examines a limited number of entries, and the next goes on from there",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const { auditLog } = yield* countersign.client({}, "filters")
        const org_id = yield* (yield* Organizations).ensure("filters")
        const now = yield* DateTime.now
        const actor_id = yield* KeyId.generate
        const entry = yield* auditRow(org_id, DateTime.subtract(now, { seconds: 1 }))
        yield* appendRows([{ ...entry, actor_id, actor_name: "Ann" }])
        yield* appendRows(yield* Effect.replicateEffect(auditRow(org_id, now), MAX_EXAMINED_ROWS))
        const query = { target_id: entry.target_id, actor_id, action: entry.action }
        const page = yield* auditLog.list({ query })
        assert.deepStrictEqual(page.entries, [])
        const cursor = page.next_cursor ?? assert.fail("no next page")
        const next = yield* auditLog.list({ query: { ...query, cursor } })
        assert.deepStrictEqual(
          next.entries.map(({ id }) => id),
          [entry.entry_id]
        )
        assert.isNull(next.next_cursor)
      })
  )

  it.effect("the log has every change of an endpoint, without its URL or secret", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const { notificationEndpoints } = yield* countersign.client({}, "endpoints")
      const { endpoint, secret } = yield* notificationEndpoints.create({
        payload: { url: `${receiver}/very-secret-path` }
      })
      const params = { id: endpoint.id }
      yield* notificationEndpoints.update({ params, payload: { events: ["approval.requested"] } })
      yield* notificationEndpoints.rotateSecret({ params })
      yield* notificationEndpoints.test({ params })
      yield* notificationEndpoints.replayDeliveries({
        params,
        payload: { since: DateTime.makeUnsafe("2026-01-01T00:00:00Z") }
      })
      yield* notificationEndpoints.remove({ params })
      const entries = yield* entriesOf("endpoints")
      assert.deepStrictEqual(actions(entries).slice(1, -1), [
        "endpoint.removed",
        "endpoint.replayed",
        "endpoint.tested",
        "endpoint.secret_rotated",
        "endpoint.updated",
        "endpoint.created"
      ])
      assert.isTrue(entries.slice(1, -1).every(({ target_id }) => target_id === endpoint.id))
      assert.notInclude(JSON.stringify(entries), "very-secret-path")
      assert.notInclude(JSON.stringify(entries), secret)
    })
  )

  it.effect("the log has the accepted decision once, and each replaced list of rules", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const agent = yield* countersign.client({ preset: "runtime" }, "decisions")
      const ann = yield* countersign.client({ name: "Ann" }, "decisions")
      yield* ann.approvalRules.replace({ payload: { rules: [{ effect: "require_approval", tool: "pay" }] } })
      const { session_id } = yield* agent.sessions.create({ payload: {} })
      const step = { step_id: StepId.make("1"), tool: "pay", action_class: "write" }
      const { approval_id } = yield* agent.sessions.step({
        params: { id: session_id },
        payload: step
      })
      if (approval_id === null) return assert.fail("The step waits for a person")
      const decide = ann.approvals.decide({ params: { id: approval_id }, payload: { decision: "approve" } })
      yield* decide
      yield* decide
      const entries = yield* entriesOf("decisions")
      assert.deepStrictEqual(actions(entries).slice(1, 3), ["approval.approved", "rules.replaced"])
      const [, approved, replaced] = entries
      assert.deepInclude(approved, { target_id: approval_id })
      assert.deepStrictEqual(approved?.detail, { session_id, step_id: "1", tool: "pay", stage: "reviewer" })
      assert.deepStrictEqual(replaced?.detail, { revision: 1, rules: 1 })
    })
  )

  it.effect(
    "the log is read only with approvals.admin, of the own organization, in pages and by filters",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const reviewer = yield* countersign.key({ preset: "reviewer" }, "pages")
        const refused = yield* send("/v1/audit-log", { key: reviewer })
        assert.strictEqual(refused.status, 403)
        assert.strictEqual(refused.body["required_scope"], "approvals.admin")

        const ann = yield* countersign.client({ name: "Ann" }, "pages")
        const made = yield* Effect.forEach([1, 2, 3, 4, 5], (number) =>
          Effect.map(
            ann.apiKeys.create({ payload: { name: `key ${number}`, preset: "runtime" } }),
            ({ key }) => key.id
          )
        )
        const read: Array<string> = []
        let cursor: AuditEntry["id"] | null = null
        do {
          const page: { entries: ReadonlyArray<AuditEntry>; next_cursor: AuditEntry["id"] | null } =
            yield* ann.auditLog.list({ query: { limit: 2, ...(cursor === null ? {} : { cursor }) } })
          assert.isAtMost(page.entries.length, 2)
          read.push(...page.entries.map(({ target_id }) => target_id))
          cursor = page.next_cursor
        } while (cursor !== null)
        assert.deepStrictEqual(read.slice(0, 5), made.toReversed())
        assert.lengthOf(read, 7)

        const found = (query: NonNullable<Parameters<typeof ann.auditLog.list>[0]>["query"]) =>
          Effect.map(ann.auditLog.list({ query: query ?? {} }), ({ entries }) => entries.length)
        const [third] = made.slice(2)
        const byAnn = (yield* ann.auditLog.list({ query: { target_id: third ?? "" } })).entries[0]
        assert.strictEqual(byAnn?.target_id, third)
        if (byAnn?.actor === undefined || byAnn.actor === null) return assert.fail("Ann made it")
        assert.strictEqual(yield* found({ actor_id: byAnn.actor.id }), 5)
        assert.strictEqual(yield* found({ action: "key.created" }), 7)
        assert.strictEqual(yield* found({ action: "key.revoked" }), 0)
        assert.strictEqual(yield* found({ occurred_after: byAnn.occurred_at, actor_id: byAnn.actor.id }), 3)
        assert.strictEqual(yield* found({ occurred_before: byAnn.occurred_at, actor_id: byAnn.actor.id }), 2)
        const unknown = yield* send("/v1/audit-log?action=key.stolen", { key: yield* countersign.key() })
        assert.strictEqual(unknown.status, 400)
      })
  )

  it.effect("a rolled-back change leaves no entry, and recording outside a transaction is a defect", () =>
    Effect.gen(function* () {
      const audit = yield* Audit
      const sql = yield* SqlClient.SqlClient
      const author = { org_id: yield* (yield* Organizations).ensure("rolled back"), actor: null }
      const undone = yield* Effect.exit(
        atomic(sql)(Effect.andThen(audit.record(author, "task.created", "tsk_1"), Effect.fail("no")))
      )
      assert.isTrue(Exit.isFailure(undone))
      assert.deepStrictEqual(actions(yield* entriesOf("rolled back")), ["key.created"])
      assert.isTrue(Exit.hasDies(yield* Effect.exit(audit.record(author, "task.created", "tsk_1"))))
    })
  )

  it.effect("concurrent changes of two organizations, batched and not, form one unbroken chain each", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const org_id = yield* (yield* Organizations).ensure("chain a")
      const other = yield* (yield* Organizations).ensure("chain b")
      const work = (organization: string) =>
        Effect.gen(function* () {
          const admin = yield* countersign.client({}, organization)
          const agent = yield* countersign.client({ preset: "runtime" }, organization)
          const { session_id } = yield* agent.sessions.create({})
          yield* Effect.forEach(
            Array.from({ length: 12 }, (_, index) => index),
            (index) =>
              Effect.gen(function* () {
                const { approval_id } = yield* agent.sessions.step({
                  params: { id: session_id },
                  payload: {
                    step_id: StepId.make(`s${index}`),
                    tool: "t",
                    action_class: "write",
                    arguments: {}
                  }
                })
                if (approval_id === null) return assert.fail("a step that waits")
                yield* admin.approvals.decide({
                  params: { id: approval_id },
                  payload: { decision: "approve" }
                })
                yield* admin.apiKeys.create({ payload: { name: `key ${index}`, preset: "runtime" } })
              }),
            { concurrency: "unbounded" }
          )
        })
      yield* Effect.all([work("chain a"), work("chain b")], { concurrency: 2 })
      const chain = yield* Effect.provide(AuditChain, AuditChain.layer)
      for (const organization of [org_id, other]) {
        const entries = yield* Stream.runCollect(chain.exportFor(organization, 0))
        assert.lengthOf(entries, 26)
        let verified: VerifiedChain | undefined
        for (const entry of entries) verified = Result.getOrThrow(verifyEntry(verified, entry))
        const { digest, position } = yield* chain.checkpointFor(organization)
        assert.deepInclude(verified?.last, { digest, position })
      }
    })
  )

  it.effect("what retention keeps of a log can still be verified", () =>
    Effect.gen(function* () {
      const org_id = yield* (yield* Organizations).ensure("retention")
      // The second entry is young, so the third waits for it although it has expired.
      yield* appendAged(org_id, [500, 10, 500, 10])
      assert.strictEqual((yield* deleteExpired("audit_retention", "365 days")).removed, 1)
      const chain = yield* Effect.provide(AuditChain, AuditChain.layer)
      const entries = yield* Stream.runCollect(chain.exportFor(org_id, 0))
      assert.deepStrictEqual(
        entries.map(({ position }) => position),
        [2, 3, 4]
      )
      let verified: VerifiedChain | undefined
      for (const entry of entries) verified = Result.getOrThrow(verifyEntry(verified, entry))
    })
  )

  it.effect(
    "an organization whose expired entries must wait does not keep those of others from removal",
    () =>
      Effect.gen(function* () {
        const { ensure } = yield* Organizations
        // The oldest position is recent, for example because a clock was wrong.
        yield* appendAged(yield* ensure("waiting retention"), [10, ...Array.from({ length: 149 }, () => 500)])
        yield* appendAged(
          yield* ensure("expired"),
          Array.from({ length: 10 }, () => 500)
        )
        assert.strictEqual((yield* deleteExpired("audit_retention", "365 days")).removed, 10)
      })
  )

  it.effect("retention removes all expired entries of a long log, and no others", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const org_id = yield* (yield* Organizations).ensure("long retention")
      yield* appendAged(
        org_id,
        Array.from({ length: 1500 }, (_, index) => 1500 - index)
      )
      assert.strictEqual((yield* deleteExpired("audit_retention", "365 days")).removed, 1136)
      assert.strictEqual((yield* deleteExpired("audit_retention", "365 days")).removed, 0)
      const [left] = yield* sql<{ readonly count: number }>`
        SELECT count(*)::int AS count FROM audit_log WHERE org_id = ${org_id}
      `
      assert.strictEqual(left?.count, 364)
    })
  )
})
