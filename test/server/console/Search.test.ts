import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import type { SearchKind, SearchResults } from "../../../src/api/console/Search.ts"
import type { NewApiKey } from "../../../src/api/ApiKeys.ts"
import { StepId } from "../../../src/domain/Ids.ts"
import { deleteSession } from "../../../src/server/approvals/deleteSessions.ts"
import { Search } from "../../../src/server/console/Search.ts"
import { ApiKeys } from "../../../src/server/identity/ApiKeys.ts"
import { StoredUsage } from "../../../src/server/identity/StoredUsage.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { eventually } from "../../support/eventually.ts"
import { service } from "../../support/service.ts"
import { sortingTask } from "../../support/tasks.ts"

/** A function that searches with a new key of an organization. */
const searcher = (organization: string, input: Partial<NewApiKey> = {}) =>
  Effect.gen(function* () {
    const { key } = yield* Countersign
    const keys = yield* ApiKeys
    const search = yield* Search
    const principal = yield* keys.verify(yield* key(input, organization))
    return {
      principal,
      find: (text: string, more: { readonly kind?: SearchKind; readonly cursor?: string } = {}) =>
        search.find(principal, { text, ...more })
    }
  })

/** `kind:title` of every result. */
const titles = ({ groups }: SearchResults): ReadonlyArray<string> =>
  groups.flatMap(({ results }) => results.map(({ kind, title }) => `${kind}:${title}`)).toSorted()

const ids = ({ groups }: SearchResults): ReadonlyArray<string> =>
  groups.flatMap(({ results }) => results.map(({ id }) => id))

/** A session with a step that waits for a person. */
const pendingStep = (organization: string, step: Record<string, unknown> = {}, metadata = {}) =>
  Effect.gen(function* () {
    const { client } = yield* Countersign
    const agent = yield* client({ preset: "runtime", name: "support-agent" }, organization)
    const { session_id, trace_id } = yield* agent.sessions.create({ payload: { metadata } })
    const { approval_id } = yield* agent.sessions.step({
      params: { id: session_id },
      payload: {
        step_id: StepId.make("step-1"),
        tool: "payments.refund",
        action_class: "write",
        arguments: { order: "ord-4711", note: "late\nparcel" },
        ...step
      }
    })
    return { session_id, trace_id, approval_id: approval_id ?? assert.fail("it waits") }
  })

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("Search", (it) => {
  it.effect(
    "words find approvals, sessions, tasks, endpoints and keys, by their starts and in any case",
    () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const { find } = yield* searcher("words", { name: "Ada Refunder" })
        const at = yield* pendingStep("words", {}, { ticket: "SUP-9001", customer: "Maria Weber" })
        const admin = yield* client({}, "words")
        const task = yield* admin.tasks.create({ payload: { ...sortingTask, name: "Refund reasons" } })
        assert.deepStrictEqual(titles(yield* find("REFUND")), [
          "approval:payments.refund",
          "key:Ada Refunder",
          "task:Refund reasons"
        ])
        assert.deepStrictEqual(ids(yield* find("refund", { kind: "task" })), [task.id])
        // An endpoint is found by its description and by its address.
        const { endpoint } = yield* admin.notificationEndpoints.create({
          payload: { url: "http://127.0.0.1:9/hook", description: "Billing alerts" }
        })
        const [found_endpoint] = (yield* find("billing 127.0.0.1:9")).groups[0]?.results ?? []
        assert.deepInclude(found_endpoint, { kind: "endpoint", id: endpoint.id, title: "Billing alerts" })
        assert.deepStrictEqual(ids(yield* find("sup-9001 web")), [at.session_id])
        assert.deepStrictEqual(ids(yield* find("ORD-4711 parc")), [at.approval_id])
        assert.deepStrictEqual(ids(yield* find("step-1")), [at.approval_id])
        assert.deepStrictEqual(ids(yield* find("order nothing")), [])
        // A character alone is a word, not the start of one.
        assert.deepStrictEqual(ids(yield* find("p", { kind: "approval" })), [])
        const session = (yield* find("9001")).groups[0]?.results[0]
        assert.deepInclude(session, {
          kind: "session",
          page: `/sessions/${at.session_id}`,
          title: "support-agent",
          status: "open"
        })
        assert.include(session?.detail, "SUP-9001")
        // What comes after a search is found by the next one.
        const next = yield* pendingStep("words", { arguments: { order: "ord-4712" } })
        const found = yield* eventually(find("ord-4712"), (results) => ids(results).length > 0)
        assert.deepStrictEqual(ids(found), [next.approval_id])
      }).pipe(Effect.orDie)
  )

  it.effect(
    "a key finds nothing of another organization, and nothing that its scopes do not let it read",
    () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const at = yield* pendingStep("scoped", {}, { ticket: "SCOPED-1" })
        const admin = yield* client({}, "scoped")
        const task = yield* admin.tasks.create({ payload: { ...sortingTask, name: "scoped-1" } })
        const run = yield* admin.tasks.run({
          params: { id: task.id },
          payload: { input: { text: "x" }, answer: { category: "other" } }
        })
        const { find } = yield* searcher("scoped", { name: "scoped-1" })
        const all = [at.approval_id, at.session_id, task.id, run.trace_id]
        for (const id of all) assert.isAbove(ids(yield* find(id)).length, 0, id)
        const outsider = yield* searcher("elsewhere")
        for (const text of [...all, "scoped-1", "refund", "payments"]) {
          assert.deepStrictEqual((yield* outsider.find(text)).groups, [], text)
        }
        const nothing = yield* searcher("scoped", { preset: "end_user_feedback", name: "scoped-1" })
        for (const text of [...all, "scoped-1", "refund"]) {
          assert.deepStrictEqual((yield* nothing.find(text)).groups, [], text)
        }
        const reviewer = yield* searcher("scoped", { preset: "reviewer", name: "scoped-1" })
        assert.deepStrictEqual(
          (yield* reviewer.find("scoped-1")).groups.map(({ kind }) => kind),
          ["session", "task"]
        )
        assert.deepStrictEqual((yield* reviewer.find(reviewer.principal.actor.id)).groups, [])
        assert.deepStrictEqual((yield* reviewer.find("scoped-1", { kind: "key" })).groups, [])
      }).pipe(Effect.orDie)
  )

  it.effect("ids, their starts, events and trace ids lead to their records", () =>
    Effect.gen(function* () {
      const { client } = yield* Countersign
      const sql = yield* SqlClient.SqlClient
      const { find, principal } = yield* searcher("ids")
      const admin = yield* client({}, "ids")
      const { endpoint } = yield* admin.notificationEndpoints.create({
        payload: { url: "https://1.1.1.1/hook", events: ["approval.requested"] }
      })
      const at = yield* pendingStep("ids", {}, { ticket: "SUP-1" })
      const task = yield* admin.tasks.create({ payload: sortingTask })
      const run = yield* admin.tasks.run({
        params: { id: task.id },
        payload: { input: { text: "x" }, answer: { category: "other" } }
      })
      const { id: feedback } = yield* admin.feedback.create({
        payload: { inference_log_id: run.trace_id, score: 1 }
      })
      const [delivery] = yield* sql<{ readonly delivery_id: string; readonly event_id: string }>`
        SELECT delivery_id, event_id FROM deliveries WHERE org_id = ${principal.org_id}
      `
      const [logged] = yield* sql<{ readonly run_id: string }>`
        SELECT run_id FROM runs WHERE org_id = ${principal.org_id}
      `
      if (delivery === undefined || logged === undefined) return assert.fail("seeded")
      const pageOf = (text: string) =>
        Effect.map(find(text), ({ groups }) =>
          groups.flatMap(({ results }) => results.map(({ page }) => page))
        )
      const approval = `/approvals/${at.approval_id}`
      assert.deepStrictEqual(yield* pageOf(` ${at.approval_id.toUpperCase()}\n`), [approval])
      assert.deepStrictEqual(yield* pageOf(at.approval_id.slice(0, 30)), [approval])
      assert.deepStrictEqual(yield* pageOf(at.session_id), [`/sessions/${at.session_id}`])
      assert.deepStrictEqual(yield* pageOf(task.id), [`/tasks/${task.id}`])
      assert.deepStrictEqual(yield* pageOf(feedback), [`/feedback/${feedback}`])
      assert.deepStrictEqual(yield* pageOf(run.trace_id), [`/runs/${run.trace_id}`])
      assert.deepStrictEqual(yield* pageOf(run.trace_id.slice(0, 8)), [`/runs/${run.trace_id}`])
      assert.deepStrictEqual(yield* pageOf(`00-${run.trace_id}-0123456789abcdef-01`), [
        `/runs/${run.trace_id}`
      ])
      assert.deepStrictEqual(yield* pageOf(logged.run_id), [`/runs/${run.trace_id}`])
      assert.deepStrictEqual(yield* pageOf(at.trace_id), [`/sessions/${at.session_id}`])
      assert.deepStrictEqual(yield* pageOf(endpoint.id), [`/endpoints/${endpoint.id}`])
      assert.deepStrictEqual(yield* pageOf(principal.actor.id), [`/keys?key=${principal.actor.id}`])
      const log = `/endpoints/${endpoint.id}/deliveries/${delivery.delivery_id}`
      assert.deepStrictEqual(yield* pageOf(delivery.delivery_id), [log])
      assert.deepStrictEqual(yield* pageOf(delivery.event_id), [approval, log])
      assert.deepStrictEqual(yield* pageOf(`apr_${"0".repeat(32)}`), [])
    }).pipe(Effect.orDie)
  )

  it.effect("the words of a deleted session are deleted with it", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const usage = yield* StoredUsage
      const clock = yield* StoreClock
      const { find, principal } = yield* searcher("deleted")
      const first = yield* pendingStep("deleted", {}, { customer: "Erasmus" })
      const second = yield* pendingStep("deleted", {}, { customer: "Erasmus" })
      assert.sameMembers([...ids(yield* find("erasmus"))], [first.session_id, second.session_id])
      yield* transaction(
        Effect.gen(function* () {
          return yield* deleteSession(sql, principal.org_id, first.session_id, {
            usage,
            now: yield* clock.now,
            keepsCounts: false
          })
        })
      )
      // Documents go with their rows, whoever deletes them.
      yield* sql`DELETE FROM approvals WHERE org_id = ${principal.org_id}`
      yield* sql`DELETE FROM agent_sessions WHERE org_id = ${principal.org_id}`
      assert.deepStrictEqual((yield* find("erasmus")).groups, [])
      const left = yield* sql`SELECT document_id FROM search_documents WHERE org_id = ${principal.org_id}`
      assert.deepStrictEqual(left, [])
    }).pipe(Effect.orDie)
  )

  it.effect("results are paged newest first, and a word that all records have is paged too", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { find, principal } = yield* searcher("pages")
      const { session_id } = yield* pendingStep("pages")
      // Twelve thousand approvals of the last days, of which every hundredth names a parcel.
      yield* sql`
        INSERT INTO approvals (
          org_id, approval_id, session_id, step_id, tool, action_class, arguments, arguments_digest, status, stage,
          requested_at, requested_by_id, review_deadline_at, expires_at, timeout_action
        )
        SELECT ${principal.org_id}, 'apr_0' || lpad(to_hex(n), 31, '0'), ${session_id}, 's' || n, 'common.tool', 'write',
          json_build_object('n', n, 'about', CASE WHEN n % 100 = 0 THEN 'rareparcel' ELSE 'letter' END), 'd', 'approved',
          'reviewer', now(), ${principal.actor.id}, now(), now(), 'reject'
        FROM generate_series(1, 12000) AS n
      `
      assert.isTrue((yield* find("common")).incomplete)
      yield* eventually(find("common"), ({ incomplete }) => !incomplete)
      const pages = Effect.fnUntraced(function* (text: string, most: number) {
        const found: Array<string> = []
        let cursor: string | undefined
        for (let page = 0; page < most; page++) {
          const results = yield* find(text, { kind: "approval", ...(cursor === undefined ? {} : { cursor }) })
          found.push(...ids(results))
          cursor = results.groups[0]?.next_cursor ?? undefined
          if (cursor === undefined) break
        }
        return found
      })
      const id = (n: number) => `apr_0${n.toString(16).padStart(31, "0")}`
      assert.deepStrictEqual(
        yield* pages("rarepar", 20),
        Array.from({ length: 120 }, (_, index) => id(12_000 - 100 * index))
      )
      assert.deepStrictEqual(
        yield* pages("common", 3),
        Array.from({ length: 60 }, (_, index) => id(12_000 - index))
      )
    }).pipe(Effect.orDie)
  )

  it.effect("no text is a syntax of its own", () =>
    Effect.gen(function* () {
      const { find } = yield* searcher("hostile")
      const at = yield* pendingStep("hostile", { arguments: { note: "it's \\ a:b 'quoted' & | ! x" } })
      for (const text of [
        "'",
        "\\",
        "a:*",
        "a' | 'b",
        "!x",
        "\u0000",
        "\ud800",
        "%",
        "_",
        "()",
        "<->",
        "x".repeat(200)
      ]) {
        // Only its words, which "a:*", "a' | 'b" and "!x" are, find the approval.
        const expected = /[abx]/.test(text) && text.length < 9 ? [at.approval_id] : []
        assert.deepStrictEqual(ids(yield* find(text, { kind: "approval" })), expected, text)
      }
      assert.deepStrictEqual(ids(yield* find("it's 'quoted'")), [at.approval_id])
    }).pipe(Effect.orDie)
  )
})

layer(service(), { timeout: "60 seconds" })("Search", (it) => {
  it.effect(
    "a record is found also if the clock of its replica's machine is a minute behind the database's",
    () =>
      Effect.gen(function* () {
        yield* TestClock.setTime(Date.now() + 60_000)
        const { find } = yield* searcher("behind")
        const first = yield* pendingStep("behind", { arguments: { order: "ord-4711" } })
        assert.deepStrictEqual(ids(yield* find("ord-4711")), [first.approval_id])
        yield* TestClock.adjust("30 seconds")
        const next = yield* pendingStep(
          "behind",
          { arguments: { order: "ord-4712" } },
          { ticket: "SUP-9002" }
        )
        assert.deepStrictEqual(ids(yield* find("ord-4712")), [next.approval_id])
        assert.deepStrictEqual(ids(yield* find("sup-9002")), [next.session_id])
      }).pipe(Effect.orDie)
  )

  it.effect("a record is found also if the database's clock was set back before it", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.now())
      const { find } = yield* searcher("set back")
      const first = yield* pendingStep("set back", { arguments: { order: "ord-4711" } })
      assert.deepStrictEqual(ids(yield* find("ord-4711")), [first.approval_id])
      yield* TestClock.setTime(Date.now() - 60_000)
      const next = yield* pendingStep("set back", { arguments: { order: "ord-4712" } })
      assert.deepStrictEqual(ids(yield* find("ord-4712")), [next.approval_id])
    }).pipe(Effect.orDie)
  )
})
