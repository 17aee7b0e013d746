import { assert, describe, layer } from "@effect/vitest"
import { DateTime, Duration, Effect, Fiber, Latch, Layer, Option, Schema, Stream } from "effect"
import { Sse } from "effect/encoding"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Authorized } from "../../../src/api/Authorization.ts"
import {
  INBOX_FIRST_PAGE,
  InboxApproval,
  MAX_COMPARED_BYTES,
  MAX_CONTEXT_BYTES,
  MAX_EARLIER_STEPS,
  MAX_TOOL_DECISIONS
} from "../../../src/api/Console.ts"
import { type ApprovalId, type OrgId, SessionId, StepId } from "../../../src/domain/Ids.ts"
import { Rules } from "../../../src/server/approvals/Rules.ts"
import { SessionSignals } from "../../../src/server/approvals/SessionSignals.ts"
import { Audit } from "../../../src/server/identity/Audit.ts"
import { ApiKeys } from "../../../src/server/identity/ApiKeys.ts"
import { ApprovalFeed } from "../../../src/server/console/ApprovalFeed.ts"
import {
  earlierStepsStatement,
  toolHistoryStatement
} from "../../../src/server/console/ApprovalFeed/contextRows.ts"
import { countStatement } from "../../../src/server/console/ApprovalFeed/countPending.ts"
import { pendingStatement } from "../../../src/server/console/ApprovalFeed/rows.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { TestDatabase } from "../../support/postgres.ts"
import { seedReader } from "../../support/sessions.ts"
import { service } from "../../support/service.ts"

/** Runs an effect as a reviewer of an organization. */
const asReviewer = <A, E, R>(organization: string, effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const { key } = yield* Countersign
    const keys = yield* ApiKeys
    const principal = yield* keys.verify(yield* key({ preset: "reviewer", name: "Ada" }, organization))
    return yield* Effect.provideService(effect, Authorized("approvals.read"), principal)
  })

/** Decodes a feed: `step status` for an approval, else the event's name. */
const decodeFeed = (bytes: Stream.Stream<Uint8Array>): Stream.Stream<string> => {
  const found: Array<string> = []
  const parser = Sse.makeParser((event) => {
    if (event._tag !== "Event" || event.event === "ping") return
    const about = JSON.parse(event.data)
    found.push(event.event === "approval" ? `${about.step_id} ${about.status}` : event.event)
  })
  return bytes.pipe(
    Stream.decodeText(),
    Stream.flatMap((text) => {
      parser.feed(text)
      return Stream.fromArray(found.splice(0))
    })
  )
}

/** Starts a session in an organization; returns a function that requests a step in it. */
const agentOf = (organization: string) =>
  Effect.gen(function* () {
    const { client } = yield* Countersign
    const agent = yield* client({ preset: "runtime" }, organization)
    const { session_id } = yield* agent.sessions.create({})
    return (step: string, tool = "mail.send") =>
      agent.sessions.step({
        params: { id: session_id },
        payload: { step_id: StepId.make(step), tool, action_class: "write", arguments: { secret: "x" } }
      })
  })

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("ApprovalFeed", (it) => {
  describe("list", () => {
    it.effect(
      "the list is sorted by deadline, has no arguments, continues after a cursor and stays within the organization",
      () =>
        Effect.gen(function* () {
          const { client } = yield* Countersign
          const feed = yield* ApprovalFeed
          const admin = yield* client({}, "order")
          const ask = yield* agentOf("order")
          yield* ask("slow")
          yield* admin.approvalRules.replace({
            payload: { rules: [{ tool: "pay.*", effect: "require_approval", review_seconds: 60 }] }
          })
          yield* ask("quick", "pay.now")
          const { approvals, more } = yield* asReviewer("order", feed.list({}))
          assert.deepStrictEqual(
            [approvals.map(({ step_id }) => String(step_id)), more],
            [["quick", "slow"], false]
          )
          const [first] = approvals
          const rest = yield* asReviewer(
            "order",
            feed.list({ after: first!.expires_at, after_id: first!.approval_id })
          )
          assert.deepStrictEqual(
            rest.approvals.map(({ step_id }) => String(step_id)),
            ["slow"]
          )
          const other = yield* asReviewer("elsewhere", feed.list({}))
          assert.deepStrictEqual(other.approvals, [])
          const item = yield* asReviewer("order", feed.get(first!.approval_id))
          assert.deepStrictEqual(item.approval.arguments, { secret: "x" })
          const hidden = yield* Effect.flip(asReviewer("elsewhere", feed.get(first!.approval_id)))
          assert.strictEqual(hidden.code, "NOT_FOUND")
        }).pipe(Effect.orDie)
    )

    it.effect(
      "each approval has a line, and values of its session's metadata only with the scope for sessions",
      () =>
        Effect.gen(function* () {
          const { client, key } = yield* Countersign
          const feed = yield* ApprovalFeed
          const admin = yield* client({}, "lines")
          yield* admin.approvalRules.replace({
            payload: { rules: [{ effect: "require_approval", summary_template: "Pay {amount|number}" }] }
          })
          const agent = yield* client({ preset: "runtime", name: "support agent" }, "lines")
          const { session_id } = yield* agent.sessions.create({
            payload: { metadata: { ticket: "SUP-9001" } }
          })
          const narrow = yield* (yield* ApiKeys).verify(yield* key({ scopes: ["approvals.read"] }, "lines"))
          const asNarrow = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
            Effect.provideService(effect, Authorized("approvals.read"), narrow)
          const lineOf = (stream: Stream.Stream<Uint8Array>) =>
            stream.pipe(
              Stream.decodeText(),
              Stream.splitLines,
              Stream.filter((text) => text.startsWith(`data: {"approval_id"`)),
              Stream.map((text): unknown => JSON.parse(text.slice(6)).line),
              Stream.runHead
            )
          const streamed = yield* Effect.forkChild(
            Effect.all([lineOf(yield* asReviewer("lines", feed.open)), lineOf(yield* asNarrow(feed.open))], {
              concurrency: 2
            }),
            { startImmediately: true }
          )
          yield* agent.sessions.step({
            params: { id: session_id },
            payload: {
              step_id: StepId.make("1"),
              tool: "pay",
              action_class: "write",
              arguments: { amount: 1_290, order: 4711 },
              summary: "A small one"
            }
          })
          const { approvals } = yield* asReviewer("lines", feed.list({}))
          const { requested_by, ...line } = approvals[0]?.line ?? assert.fail("it is listed with a line")
          assert.strictEqual(requested_by.name, "support agent")
          assert.deepStrictEqual(line, {
            rule_summary: "Pay 1,290",
            agent_summary: "A small one",
            arguments: "amount 1290 · order 4711",
            self_approval: false,
            about: "SUP-9001",
            newest_question: 0,
            newest_answer: 0
          })
          const withoutSession = yield* asNarrow(feed.list({}))
          assert.isNull(withoutSession.approvals[0]?.line?.about)
          const [wide, short] = yield* Fiber.join(streamed)
          assert.deepStrictEqual<unknown>(Option.getOrUndefined(wide), { ...line, requested_by })
          assert.deepStrictEqual<unknown>(Option.getOrUndefined(short), {
            ...line,
            requested_by,
            about: null
          })
        }).pipe(Effect.scoped, Effect.orDie)
    )

    it.effect("a message about an approval is a change of its line", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const feed = yield* ApprovalFeed
        const { approval_id } = yield* (yield* agentOf("messages"))("first")
        const admin = yield* client({}, "messages")
        const streamed = yield* Effect.forkChild(
          (yield* asReviewer("messages", feed.open)).pipe(
            Stream.decodeText(),
            Stream.splitLines,
            Stream.filter((text) => text.startsWith(`data: {"approval_id"`)),
            Stream.map((text) => JSON.parse(text.slice(6))),
            Stream.filter(({ line }) => line.newest_question > 0),
            Stream.runHead
          ),
          { startImmediately: true }
        )
        yield* admin.approvals.sendMessage({
          params: { id: approval_id ?? assert.fail("the step waits") },
          payload: { text: "a secret question" }
        })
        const changed: unknown = Option.getOrUndefined(yield* Fiber.join(streamed))
        const { approvals } = yield* asReviewer("messages", feed.list({}))
        const [listed = assert.fail("it is listed")] = approvals
        assert.deepStrictEqual(changed, Schema.encodeSync(Schema.toCodecJson(InboxApproval))(listed))
        assert.deepInclude(listed.line, { newest_question: 1, newest_answer: 0 })
        assert.notInclude(JSON.stringify(changed), "secret question")
      }).pipe(Effect.scoped, Effect.orDie)
    )

    it.effect("a page of many pending approvals is read by their index, without the others", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { approval_id } = yield* (yield* agentOf("a thousand"))("first")
        yield* sql`
          INSERT INTO approvals
          SELECT (jsonb_populate_record(approvals, jsonb_build_object('approval_id', 'apr ' || n, 'expires_at', expires_at + n * interval '1 s'))).*
          FROM approvals, generate_series(1, 1000) AS n
          WHERE approval_id = ${approval_id}
        `
        yield* sql`ANALYZE approvals`
        const [row] = yield* sql<{ readonly org_id: OrgId }>`
          SELECT org_id FROM approvals WHERE approval_id = ${approval_id}
        `
        const rows = yield* sql<{ readonly "QUERY PLAN": string }>`
          EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF)
          ${pendingStatement(sql, row?.org_id ?? assert.fail("it is stored"), INBOX_FIRST_PAGE, undefined, undefined)}
        `
        const plan = rows.map((line) => line["QUERY PLAN"]).join("\n")
        const [, read] = /using approvals_inbox on approvals \S* ?\(actual rows=(\d+)/.exec(plan) ?? []
        assert.isAtMost(Number(read), INBOX_FIRST_PAGE, plan)
      }).pipe(Effect.orDie)
    )

    it.effect("the first page is small, and the pages after it miss no approval", () =>
      Effect.gen(function* () {
        const feed = yield* ApprovalFeed
        const ask = yield* agentOf("many")
        const count = INBOX_FIRST_PAGE + 1
        yield* Effect.forEach(
          Array.from({ length: count }, (_, index) => `step ${index}`),
          (step) => ask(step),
          { concurrency: 4, discard: true }
        )
        const first = yield* asReviewer("many", feed.list({}))
        assert.deepStrictEqual([first.approvals.length, first.more], [INBOX_FIRST_PAGE, true])
        const last = first.approvals.at(-1)!
        const rest = yield* asReviewer(
          "many",
          feed.list({ after: last.expires_at, after_id: last.approval_id })
        )
        assert.deepStrictEqual([rest.approvals.length, rest.more], [1, false])
        const all = [...first.approvals, ...rest.approvals].map(({ step_id }) => step_id)
        assert.strictEqual(new Set(all).size, count)
      }).pipe(Effect.orDie)
    )
  })

  describe("count", () => {
    it.effect("only approvals that the key can approve are counted, of its organization", () =>
      Effect.gen(function* () {
        const { client, clientWith, key } = yield* Countersign
        const feed = yield* ApprovalFeed
        const keys = yield* ApiKeys
        const admin = yield* client({}, "counted")
        const ada = yield* key({ preset: "reviewer", name: "Ada", groups: ["finance"] }, "counted")
        yield* key({ preset: "reviewer", name: "Lea", groups: ["legal"] }, "counted")
        yield* admin.approvalRules.replace({
          payload: {
            rules: [
              { tool: "legal.*", effect: "require_approval", quorum: [{ group: "legal" }] },
              { tool: "pay.*", effect: "require_approval", quorum: [{ group: "finance" }, { count: 1 }] },
              { effect: "require_approval" }
            ]
          }
        })
        const submit = (agent: typeof admin, tool: string) =>
          Effect.gen(function* () {
            const { session_id } = yield* agent.sessions.create({})
            const { approval_id } = yield* agent.sessions.step({
              params: { id: session_id },
              payload: { step_id: StepId.make(tool), tool, action_class: "write" }
            })
            return approval_id ?? assert.fail("it waits")
          })
        const ben = yield* key({ preset: "reviewer", name: "Ben" }, "counted")
        // Its own request is not counted for it.
        const cleo = yield* key(
          { scopes: ["approvals.read", "approvals.decide", "sessions.write"], name: "Cleo" },
          "counted"
        )
        const runtime = yield* client({ preset: "runtime" }, "counted")
        yield* submit(runtime, "mail.send")
        yield* submit(runtime, "legal.sign")
        const payment = yield* submit(runtime, "pay.out")
        yield* submit(yield* clientWith(cleo), "shell")
        yield* (yield* agentOf("elsewhere"))("one")
        const countOf = (secret: typeof ada) =>
          Effect.gen(function* () {
            const principal = yield* keys.verify(secret)
            const { count, more } = yield* Effect.provideService(
              feed.count,
              Authorized("approvals.read"),
              principal
            )
            return `${count}${more ? "+" : ""}`
          })
        const counts = () => Effect.all([countOf(ada), countOf(ben), countOf(cleo)])
        assert.deepStrictEqual(yield* counts(), ["3", "3", "2"])
        yield* (yield* clientWith(ben)).approvals.decide({
          params: { id: payment },
          payload: { decision: "approve" }
        })
        // Ben has approved, and of the two approvals only one of finance is missing.
        assert.deepStrictEqual(yield* counts(), ["3", "2", "1"])
        assert.strictEqual(yield* countOf(yield* key({ preset: "runtime" }, "counted")), "0")
        const sql = yield* SqlClient.SqlClient
        yield* sql`UPDATE approvals SET stage = 'admin' WHERE tool = 'mail.send'`
        assert.deepStrictEqual(yield* counts(), ["2", "1", "0"])
      }).pipe(Effect.orDie)
    )

    it.effect("of many pending approvals only some are read, by their index, and the count ends at 99", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const feed = yield* ApprovalFeed
        const { approval_id } = yield* (yield* agentOf("ten thousand"))("first")
        yield* sql`
          INSERT INTO approvals
          SELECT (jsonb_populate_record(approvals, jsonb_build_object('approval_id', 'apr ' || n, 'expires_at', expires_at + n * interval '1 s'))).*
          FROM approvals, generate_series(1, 10000) AS n
          WHERE approval_id = ${approval_id}
        `
        yield* sql`ANALYZE approvals`
        assert.deepStrictEqual(yield* asReviewer("ten thousand", feed.count), {
          count: 99,
          more: true
        })
        const principal = yield* asReviewer("ten thousand", Authorized("approvals.read"))
        const rows = yield* sql<{ readonly "QUERY PLAN": string }>`
          EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) ${countStatement(sql, principal)}
        `
        const plan = rows.map((line) => line["QUERY PLAN"]).join("\n")
        const [, read] = /using approvals_inbox on approvals \S* ?\(actual rows=(\d+)/.exec(plan) ?? []
        assert.isAtMost(Number(read), 500, plan)
      }).pipe(Effect.orDie)
    )
  })

  describe("context", () => {
    it.effect("an approval's context has who asks, why, the session's metadata and the steps before it", () =>
      Effect.gen(function* () {
        const { client, key } = yield* Countersign
        const feed = yield* ApprovalFeed
        const admin = yield* client({}, "context")
        yield* admin.approvalRules.replace({
          payload: {
            rules: [
              { tool: "search.*", effect: "allow" },
              { effect: "require_approval", reason: "Money leaves the house" }
            ]
          }
        })
        const agent = yield* client({ preset: "runtime", name: "support agent" }, "context")
        const { session_id } = yield* agent.sessions.create({ payload: { metadata: { ticket: "SUP-9001" } } })
        const submit = (step: string, tool: string, args: Schema.Json) =>
          agent.sessions.step({
            params: { id: session_id },
            payload: { step_id: StepId.make(step), tool, action_class: "read", arguments: args }
          })
        const complete = (step: string, result: Schema.Json) =>
          agent.sessions.reportOutcome({
            params: { id: session_id, step_id: StepId.make(step) },
            payload: { status: "succeeded", result }
          })
        yield* submit("0-before", "search.old", {})
        for (let index = 1; index < MAX_EARLIER_STEPS; index++) yield* submit(`${index}`, "search.more", {})
        yield* submit("search", "search.orders", { order: 4711 })
        yield* complete("search", { total_cents: 12_900 })
        const { approval_id } = yield* submit("refund", "payments.refund", { amount_cents: 129_000 })
        // It is not before the refund.
        yield* submit("later", "search.later", {})
        const id = approval_id ?? assert.fail("the step waits for a person")
        const context = yield* asReviewer("context", feed.context(id))
        assert.strictEqual(context.requested_by.name, "support agent")
        assert.strictEqual(context.reason, "Money leaves the house")
        assert.isNotNull(context.rule_id)
        assert.strictEqual(context.rule_number, 2)
        assert.deepStrictEqual(context.tool_history, { decisions: 0, approved: 0, median_seconds: null })
        assert.isNull(context.session?.outcome)
        assert.deepStrictEqual(context.session?.metadata, { ticket: "SUP-9001" })
        assert.isTrue(context.session?.more)
        const steps = context.session?.earlier_steps ?? []
        assert.strictEqual(steps.length, MAX_EARLIER_STEPS)
        assert.isFalse(steps.some(({ tool }) => tool === "search.later" || tool === "search.old"))
        const last = steps.at(-1)
        assert.deepStrictEqual(
          [
            last?.tool,
            last?.decision,
            last?.arguments_json,
            last?.outcome?.status,
            last?.outcome?.result_json
          ],
          ["search.orders", "allow", `{"order":4711}`, "succeeded", `{"total_cents":12900}`]
        )
        const hidden = yield* Effect.flip(asReviewer("context elsewhere", feed.context(id)))
        assert.strictEqual(hidden.code, "NOT_FOUND")
        // After the decision: what became of the tool.
        yield* (yield* client({ preset: "reviewer" }, "context")).approvals.decide({
          params: { id },
          payload: { decision: "approve" }
        })
        yield* complete("refund", { refunded: true })
        const after = yield* asReviewer("context", feed.context(id))
        assert.strictEqual(after.session?.outcome?.result_json, `{"refunded":true}`)
        // Results of tools are read with `sessions.read`, as from the session's events.
        const narrow = yield* (yield* ApiKeys).verify(yield* key({ scopes: ["approvals.read"] }, "context"))
        const narrowed = yield* Effect.provideService(feed.context(id), Authorized("approvals.read"), narrow)
        assert.notInclude(JSON.stringify(narrowed), "refunded")
        assert.isFalse(after.session?.earlier_steps.some(({ step_id }) => step_id === "refund"))
      }).pipe(Effect.orDie)
    )

    it.effect("the steps before an approval are read by an index of the session's steps by time", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const sql = yield* SqlClient.SqlClient
        const agent = yield* client({ preset: "runtime" }, "long context")
        const { session_id } = yield* agent.sessions.create({})
        const step_id = StepId.make("asks")
        yield* agent.sessions.step({
          params: { id: session_id },
          payload: { step_id, tool: "mail.send", action_class: "write" }
        })
        const [asked] = yield* sql<{ readonly org_id: OrgId; readonly at: Date }>`
          SELECT org_id, requested_at AS at
          FROM governed_steps
          WHERE session_id = ${session_id}
        `
        if (asked === undefined) return assert.fail("the step is stored")
        yield* sql`
          INSERT INTO governed_steps (
            org_id, session_id, step_id, tool, action_class, arguments_digest, decision, reason, requested_by_id, requested_at
          )
          SELECT ${asked.org_id}, ${session_id}, 'before ' || n, 'search', 'read', '', 'allow', '', 'key',
            ${asked.at}::timestamptz - n * interval '1 second'
          FROM generate_series(1, 20000) AS n
        `
        yield* sql`ANALYZE governed_steps`
        const rows = yield* sql<{ readonly "QUERY PLAN": string }>`
          EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) ${earlierStepsStatement(sql, asked.org_id, {
            session_id,
            step_id,
            requested_at: DateTime.makeUnsafe(asked.at)
          })}
        `
        const plan = rows.map((row) => row["QUERY PLAN"]).join("\n")
        const [, read] =
          /Scan Backward using governed_steps_of_session on governed_steps \(actual rows=(\d+)/.exec(plan) ??
          []
        assert.isAtMost(Number(read), MAX_EARLIER_STEPS + 10, plan)
      }).pipe(Effect.orDie)
    )

    it.effect(
      "a tool's history has people's newest decisions about other approvals of the organization",
      () =>
        Effect.gen(function* () {
          const { client } = yield* Countersign
          const sql = yield* SqlClient.SqlClient
          const feed = yield* ApprovalFeed
          const reviewer = yield* client({ preset: "reviewer" }, "history")
          const ask = yield* agentOf("history")
          const request = (step: string, tool: string) =>
            Effect.map(ask(step, tool), ({ approval_id }) => approval_id ?? assert.fail("the step waits"))
          const decide = (id: ApprovalId, decision: "approve" | "reject") =>
            reviewer.approvals.decide({ params: { id }, payload: { decision } })
          const rejected = yield* request("rejected", "pay")
          yield* decide(rejected, "reject")
          for (let index = 0; index < 3; index++) yield* decide(yield* request(`${index}`, "pay"), "approve")
          yield* decide(yield* request("other tool", "mail"), "reject")
          const id = yield* request("asked", "pay")
          yield* request("pending too", "pay")
          yield* (yield* agentOf("history elsewhere"))("foreign", "pay")
          yield* sql`
          UPDATE approvals SET requested_at = decided_at - interval '90 seconds'
          WHERE org_id = (SELECT org_id FROM approvals WHERE approval_id = ${id}) AND decided_at IS NOT NULL
        `
          const { tool_history } = yield* asReviewer("history", feed.context(id))
          assert.deepStrictEqual(tool_history, { decisions: 4, approved: 3, median_seconds: 90 })
          // The open approval itself does not count.
          const own = yield* asReviewer("history", feed.context(rejected))
          assert.deepStrictEqual(own.tool_history, { decisions: 3, approved: 3, median_seconds: 90 })
          yield* sql`
          INSERT INTO approvals
          SELECT (jsonb_populate_record(approvals, jsonb_build_object('approval_id', 'old ' || n, 'decided_at', decided_at - n * interval '1 day'))).*
          FROM approvals, generate_series(1, 1000) AS n
          WHERE approval_id = ${rejected}
        `
          yield* sql`ANALYZE approvals`
          const many = yield* asReviewer("history", feed.context(id))
          assert.deepInclude(many.tool_history, { decisions: MAX_TOOL_DECISIONS, approved: 3 })
          const [asked] = yield* sql<{ readonly org_id: OrgId }>`
          SELECT org_id FROM approvals WHERE approval_id = ${id}
        `
          const rows = yield* sql<{ readonly "QUERY PLAN": string }>`
          EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF)
          ${toolHistoryStatement(sql, asked?.org_id ?? assert.fail("it is stored"), id, "pay")}
        `
          const plan = rows.map((row) => row["QUERY PLAN"]).join("\n")
          const [, read] =
            /Scan Backward using approvals_tool_decided on approvals \(actual rows=(\d+)/.exec(plan) ?? []
          assert.isAtMost(Number(read), MAX_TOOL_DECISIONS + 1, plan)
        }).pipe(Effect.orDie)
    )

    it.effect("large arguments and results are left out, and sessions need their own scope", () =>
      Effect.gen(function* () {
        const { client, key } = yield* Countersign
        const feed = yield* ApprovalFeed
        const agent = yield* client({ preset: "runtime" }, "large context")
        const { session_id } = yield* agent.sessions.create({})
        const submit = (step: string, args: Schema.Json) =>
          agent.sessions.step({
            params: { id: session_id },
            payload: { step_id: StepId.make(step), tool: "mail.send", action_class: "write", arguments: args }
          })
        // The first compresses to less than the limit.
        yield* submit("1", "x".repeat(MAX_CONTEXT_BYTES))
        yield* submit("2", "x".repeat(MAX_CONTEXT_BYTES - 2))
        const { approval_id } = yield* submit("3", {})
        const id = approval_id ?? assert.fail("the step waits for a person")
        const { session } = yield* asReviewer("large context", feed.context(id))
        assert.deepStrictEqual(
          session?.earlier_steps.map((step) => [
            step.decision,
            step.arguments_too_large,
            step.arguments_json?.length ?? null
          ]),
          [
            ["pending", true, null],
            ["pending", false, MAX_CONTEXT_BYTES]
          ]
        )
        const keys = yield* ApiKeys
        const narrow = yield* keys.verify(yield* key({ scopes: ["approvals.read"] }, "large context"))
        const withoutSession = yield* Effect.provideService(
          feed.context(id),
          Authorized("approvals.read"),
          narrow
        )
        assert.isNull(withoutSession.session)
      }).pipe(Effect.orDie)
    )
  })

  describe("compare", () => {
    it.effect(
      "approvals to compare have their arguments up to a size, who submitted them, and stay within the organization",
      () =>
        Effect.gen(function* () {
          const { client } = yield* Countersign
          const feed = yield* ApprovalFeed
          const agent = yield* client({ preset: "runtime", name: "support agent" }, "compare")
          const { session_id } = yield* agent.sessions.create({})
          const request = (step: string, args?: Schema.Json) =>
            Effect.map(
              agent.sessions.step({
                params: { id: session_id },
                payload: {
                  step_id: StepId.make(step),
                  tool: "mail.send",
                  action_class: "write",
                  ...(args === undefined ? {} : { arguments: args })
                }
              }),
              ({ approval_id }) => approval_id ?? assert.fail("the step waits for a person")
            )
          const none = yield* request("none")
          const small = yield* request("small", { b: 1, a: null })
          // With its quotes exactly as large as is read, and a byte larger.
          const full = yield* request("full", "x".repeat(MAX_COMPARED_BYTES - 2))
          const large = yield* request("large", "x".repeat(MAX_COMPARED_BYTES - 1))
          const foreign = yield* (yield* agentOf("compare elsewhere"))("foreign")
          const ids = [large, foreign.approval_id!, none, small, full]
          const items = yield* asReviewer("compare", feed.compare(ids))
          assert.deepStrictEqual(
            items.map((item) => [
              item.approval_id,
              item.arguments_bytes,
              item.arguments_json?.length ?? null
            ]),
            [
              [large, MAX_COMPARED_BYTES + 1, null],
              [none, 0, null],
              [small, 16, 16],
              [full, MAX_COMPARED_BYTES, MAX_COMPARED_BYTES]
            ]
          )
          assert.strictEqual(items[2]?.arguments_json, `{"b":1,"a":null}`)
          assert.isTrue(
            items.every(
              ({ own_request, requested_by }) => requested_by.name === "support agent" && !own_request
            )
          )
        }).pipe(Effect.orDie)
    )
  })

  describe("open", () => {
    it.effect("the stream delivers every change of its organization and none of another", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const feed = yield* ApprovalFeed
        const stream = yield* asReviewer("told", feed.open)
        // The other organization has a subscriber as well, so its changes are read but must not be delivered here.
        yield* Effect.forkChild(Stream.runDrain(yield* asReviewer("not told", feed.open)))
        const collector = yield* Effect.forkChild(
          // Changes in quick succession may be coalesced into the last one.
          decodeFeed(stream).pipe(
            Stream.takeUntil((event) => event === "mine approved"),
            Stream.runCollect
          )
        )
        yield* (yield* agentOf("not told"))("foreign")
        yield* (yield* agentOf("told"))("mine")
        const reviewer = yield* client({ preset: "reviewer" }, "told")
        const { approvals } = yield* reviewer.approvals.list()
        yield* reviewer.approvals.decide({
          params: { id: approvals[0]!.approval_id },
          payload: { decision: "approve" }
        })
        const events = [...(yield* Fiber.join(collector))]
        assert.notInclude(events.join(), "foreign")
        assert.strictEqual(events.at(-1), "mine approved")
      }).pipe(Effect.scoped, Effect.orDie)
    )

    it.effect(
      "only running streams count towards the limits, and one key cannot use up the limits of others",
      () =>
        Effect.gen(function* () {
          const feed = yield* ApprovalFeed
          // HEAD requests and clients that disconnect early never run the stream.
          yield* asReviewer("crowd", Effect.repeat(Effect.asVoid(feed.open), { times: 1_000 }))
          const full = yield* asReviewer(
            "crowd",
            Effect.flip(
              Effect.forever(
                Effect.flatMap(feed.open, (stream) =>
                  Effect.forkChild(Stream.runDrain(stream), { startImmediately: true })
                )
              )
            )
          )
          assert.strictEqual(full.code, "UNAVAILABLE")
          yield* asReviewer("crowd", Effect.asVoid(feed.open))
        }).pipe(Effect.scoped, Effect.orDie)
    )

    it.effect("streams that are opened at the same moment do not exceed the limit of their key", () =>
      Effect.gen(function* () {
        const feed = yield* ApprovalFeed
        // Each was admitted before any of them runs.
        const admitted = yield* asReviewer("at once", Effect.replicateEffect(feed.open, 110))
        const running = yield* Effect.forEach(admitted, (stream) =>
          Effect.forkChild(Stream.runDrain(stream), { startImmediately: true })
        )
        yield* Effect.yieldNow
        assert.strictEqual(running.filter((fiber) => fiber.pollUnsafe() === undefined).length, 100)
      }).pipe(Effect.scoped, Effect.orDie)
    )

    it.effect("two organizations that use up the feeds of the replica do not keep out a third", () =>
      Effect.gen(function* () {
        const feed = yield* ApprovalFeed
        const watch = Effect.flatMap(feed.open, (stream) =>
          Effect.forkChild(Stream.runDrain(stream), { startImmediately: true })
        )
        const crowd = (organization: string) =>
          Effect.map(
            Effect.replicateEffect(asReviewer(organization, Effect.replicateEffect(watch, 100)), 5),
            (feeds) => feeds.flat()
          )
        const crowds = [...(yield* crowd("first crowd")), ...(yield* crowd("second crowd"))]
        const open = () => crowds.filter((fiber) => fiber.pollUnsafe() === undefined).length
        assert.strictEqual(open(), 1_000)
        const small = yield* asReviewer("small", Effect.replicateEffect(watch, 3))
        yield* Effect.yieldNow
        assert.strictEqual(open(), 997)
        // A crowd does not get its lost slots back from the small organization.
        const refused = yield* asReviewer("first crowd", Effect.flip(feed.open))
        assert.strictEqual(refused.code, "UNAVAILABLE")
        assert.isTrue(small.every((fiber) => fiber.pollUnsafe() === undefined))
      }).pipe(Effect.scoped, Effect.orDie)
    )

    it.effect("after changes that could not be read, the console refetches its inbox", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const feed = yield* ApprovalFeed
        const stream = yield* asReviewer("unread changes", feed.open)
        const collector = yield* Effect.forkChild(
          decodeFeed(stream).pipe(
            Stream.takeUntil((event) => event === "resync"),
            Stream.runCollect
          ),
          { startImmediately: true }
        )
        yield* sql`ALTER TABLE session_events RENAME TO unreadable`
        yield* (yield* SessionSignals).publish([{ session_id: yield* SessionId.generate, newest: 1 }])
        const events = yield* Effect.ensuring(
          Fiber.join(collector),
          Effect.orDie(sql`ALTER TABLE unreadable RENAME TO session_events`)
        )
        assert.deepStrictEqual([...events], ["resync"])
      }).pipe(Effect.scoped, Effect.orDie)
    )

    it.effect("after more changes than one read takes, the console refetches its inbox", () =>
      Effect.gen(function* () {
        const feed = yield* ApprovalFeed
        const stream = yield* asReviewer("many changes", feed.open)
        const first = yield* Effect.forkChild(Stream.runHead(decodeFeed(stream)), { startImmediately: true })
        const sessions = yield* Effect.replicateEffect(SessionId.generate, 5_001)
        yield* (yield* SessionSignals).publish(sessions.map((session_id) => ({ session_id, newest: 1 })))
        assert.deepStrictEqual(yield* Fiber.join(first), Option.some("resync"))
      }).pipe(Effect.scoped, Effect.orDie)
    )

    it.effect("the stream ends on shutdown, and later streams end immediately", () =>
      Effect.gen(function* () {
        const feed = yield* ApprovalFeed
        const stream = yield* asReviewer("ending", feed.open)
        yield* feed.endAll
        yield* Stream.runDrain(stream)
        yield* Stream.runDrain(yield* asReviewer("ending", feed.open))
      }).pipe(Effect.orDie)
    )
  })
})

layer(
  Layer.mergeAll(SessionSignals.layer, Rules.layer.pipe(Layer.provide(Audit.layer))).pipe(
    Layer.provideMerge(StoreClock.layer),
    Layer.provideMerge(TestDatabase.layerSql)
  ),
  {
    excludeTestServices: true
  }
)("ApprovalFeed › a slow console", (it) => {
  it.effect(
    "a console that stops reading is disconnected, and then has no gap that it does not know of",
    () =>
      Effect.gen(function* () {
        const feed = yield* ApprovalFeed
        const reviewer = yield* seedReader
        const open = Effect.provideService(feed.open, Authorized("approvals.read"), reviewer)
        const frames = { slow: 0, quick: 0 }
        const isHeartbeat = (frame: Uint8Array) => Buffer.from(frame).includes("event: ping")
        const resume = yield* Latch.make()
        const slow = yield* Effect.forkChild(
          Stream.runForEach(yield* open, () => {
            frames.slow++
            return resume.await
          })
        )
        const quick = yield* Effect.forkChild(
          // Others, such as one after a reconnection to the database, may come too.
          Stream.runForEach(Stream.filter(yield* open, isHeartbeat), () => Effect.sync(() => frames.quick++))
        )
        const heartbeats = 2_500
        yield* TestClock.adjust(Duration.seconds(10 * heartbeats))
        assert.strictEqual(frames.quick, heartbeats)
        yield* resume.open
        yield* Fiber.join(slow)
        assert.isAtMost(frames.slow, 2_001)
        yield* Fiber.interrupt(quick)
      }).pipe(Effect.provide(ApprovalFeed.layer.pipe(Layer.provideMerge(TestClock.layer()))), Effect.scoped)
  )
})
