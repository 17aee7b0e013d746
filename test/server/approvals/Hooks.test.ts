import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Logger, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { DecisionWaits } from "../../../src/server/approvals/DecisionWaits.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { governedRun } from "../../adapters/governedRun.ts"
import {
  claudeCode1,
  claudeCode2,
  claudeCodeSubagent,
  codexPermission,
  codex1,
  ended,
  failed,
  succeeded
} from "../../support/hooks/recordedInputs.ts"
import { service } from "../../support/service.ts"

/** A coding agent that posts its hooks to the service. */
const codingAgent = Effect.fnUntraced(function* (organization: string) {
  const countersign = yield* Countersign
  const run = yield* governedRun(organization)
  const post = async (
    body: unknown,
    {
      key = run.key,
      query = "wait_seconds=20",
      signal
    }: { key?: string; query?: string; signal?: AbortSignal } = {}
  ) => {
    const response = await fetch(`${countersign.url}/v1/hooks/claude-code?${query}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: typeof body === "string" ? body : JSON.stringify(body),
      ...(signal === undefined ? {} : { signal })
    })
    const answer: Record<string, unknown> = Object(await response.json())
    const specific: Record<string, unknown> = Object(answer["hookSpecificOutput"])
    return {
      status: response.status,
      requestId: response.headers.get("x-request-id") ?? "none",
      answer,
      decision: specific["permissionDecision"],
      reason: String(specific["permissionDecisionReason"] ?? answer["reason"])
    }
  }
  const sessions = async () => {
    const found = await run.client.sessions.list()
    return found.sessions.filter(({ metadata }) => "coding_agent" in metadata).toReversed()
  }
  return { countersign, run, post, sessions }
})

const call = (tool_name: string, more: object = {}) => ({ ...claudeCode2, tool_name, ...more })

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("HTTP hooks", (it) => {
  it.effect("decide by rules, record outcomes, and close the session at its end", () =>
    Effect.gen(function* () {
      const { post, run, sessions } = yield* codingAgent("http rules")
      yield* Effect.promise(async () => {
        assert.strictEqual((await post(call("read"))).decision, "allow")
        assert.deepStrictEqual((await post(succeeded(call("read"), { text: "…" }))).answer, {})
        assert.deepStrictEqual((await post(succeeded(call("read"), { text: "…" }))).answer, {})
        const other = call("read", { tool_use_id: "toolu_2" })
        await post(other)
        await post(failed(other, `EACCES ${"x".repeat(10_000)}`))
        const denied = await post(call("forbidden", { tool_use_id: "toolu_3" }))
        assert.include(
          denied.reason,
          "A rule rejected this call, so it was not executed. Nobody may do this."
        )
        const refused = await post(succeeded(call("forbidden", { tool_use_id: "toolu_3" }), "done"))
        assert.include(refused.answer["systemMessage"], "was not recorded: STEP_NOT_ALLOWED")
        // The same ID and arguments after an outcome are another call.
        assert.strictEqual((await post(call("read"))).decision, "allow")
        assert.deepStrictEqual((await post(ended(claudeCode2))).answer, {})
        const [session, ...others] = await sessions()
        assert.deepStrictEqual(others, [])
        assert.deepInclude(session, {
          status: "closed",
          metadata: { coding_agent: "claude-code", coding_session: claudeCode2.session_id }
        })
        // Resumed after its end, in another session.
        assert.strictEqual((await post(call("read", { tool_use_id: "toolu_4" }))).decision, "allow")
        assert.lengthOf(await sessions(), 2)
        assert.isString(run.session)
      })
    })
  )

  it.effect("record no outcome of a call that was interrupted", () =>
    Effect.gen(function* () {
      const { post, run, sessions } = yield* codingAgent("http interrupts")
      yield* Effect.promise(async () => {
        const stopped = call("read")
        await post(stopped)
        const report = { ...failed(stopped, "Interrupted"), is_interrupt: true }
        assert.deepStrictEqual((await post(report)).answer, {})
        await post(call("read", { tool_use_id: "toolu_2" }))
        await post(succeeded(call("read", { tool_use_id: "toolu_2" }), "done"))
        await post(ended(claudeCode2))
        const [session] = await sessions()
        const outcomes: Array<string> = []
        for await (const event of run.client.stream(session?.session_id ?? assert.fail(), { after: 0 }))
          if (event.type === "tool:outcome") outcomes.push(event.step_id)
        assert.deepStrictEqual(outcomes, ["toolu_2"])
      })
    })
  )

  it.effect("ask again about a call that was interrupted, also if a model server repeats its ID", () =>
    Effect.gen(function* () {
      const { post, run } = yield* codingAgent("http interrupted again")
      yield* Effect.promise(async () => {
        const numbered = (tool: string) => call(tool, { tool_use_id: "call_0" })
        const interrupt = () => post({ ...failed(numbered("refund"), "Interrupted"), is_interrupt: true })
        const asked = () => post(numbered("refund"), { query: "wait_seconds=0" })
        // No call ran that still waits: it goes on with its approval.
        assert.strictEqual((await asked()).decision, "deny")
        await interrupt()
        for (const approvals of [1, 2, 3]) {
          assert.strictEqual((await asked()).decision, "deny", `approval ${approvals}`)
          await run.decide("approve", "refund")
          assert.strictEqual((await asked()).decision, "allow")
          assert.lengthOf((await run.client.approvals.list({ query: {} })).approvals, approvals)
          await interrupt()
          // Another call with the same ID in between.
          await post(numbered("read"))
          await post(succeeded(numbered("read"), "done"))
        }
      })
    })
  )

  it.effect("wait for the person, of parallel calls in one session", () =>
    Effect.gen(function* () {
      const { post, run, sessions } = yield* codingAgent("http waits")
      yield* Effect.promise(async () => {
        const calls = [1, 2, 3, 4, 5, 6].map((n) =>
          post(call("refund", { tool_use_id: `toolu_${n}`, tool_input: { n } }))
        )
        for (const n of [6, 5, 4, 3, 2]) await run.decide("approve", "refund", { arguments: { n } })
        await run.decide("reject", "refund", { arguments: { n: 1 }, comment: "Wrong order" })
        const [rejected, ...approved] = await Promise.all(calls)
        assert.include(rejected?.reason, 'Their comment: "Wrong order".')
        assert.deepStrictEqual(
          approved.map(({ decision }) => decision),
          ["allow", "allow", "allow", "allow", "allow"]
        )
        assert.lengthOf(await sessions(), 1)
      })
    })
  )

  it.effect("deny a call that waits too long, and go on with its approval when the model calls again", () =>
    Effect.gen(function* () {
      const { post, run, sessions } = yield* codingAgent("http late")
      yield* Effect.promise(async () => {
        const late = await post(call("refund"), { query: "wait_seconds=0" })
        assert.strictEqual(late.decision, "deny")
        assert.match(late.reason, /still waiting for approval apr_\w+; the same call .* asks again/u)
        await post(ended(claudeCode2))
        assert.strictEqual((await sessions())[0]?.status, "open")
        const again = call("refund", { tool_use_id: "toolu_again" })
        const waiting = post(again)
        await run.decide("approve", "refund")
        assert.strictEqual((await waiting).decision, "allow")
        assert.deepStrictEqual((await post(succeeded(again, "done"))).answer, {})
        const { approvals } = await run.client.approvals.list({ query: {} })
        assert.deepStrictEqual(
          approvals.map(({ status, step_id }) => [step_id, status]),
          [[claudeCode2.tool_use_id, "approved"]]
        )
        // Used up.
        assert.strictEqual(
          (await post(call("refund", { tool_use_id: "toolu_third" }), { query: "wait_seconds=0" })).decision,
          "deny"
        )
      })
    })
  )

  it.effect(
    "keep a session open at its end for a call that waits or is approved, not for a rejected one",
    () =>
      Effect.gen(function* () {
        const { post, run, sessions } = yield* codingAgent("http ends")
        yield* Effect.promise(async () => {
          for (const [decision, status] of [
            ["approve", "open"],
            ["reject", "closed"]
          ] as const) {
            const of = { session_id: `ends after ${decision}` }
            await post(call("refund", of), { query: "wait_seconds=0" })
            await run.decide(decision, "refund")
            await post(ended({ ...claudeCode2, ...of }))
            const session = (await sessions()).at(-1)
            const metadata = { coding_agent: "claude-code", coding_session: of.session_id }
            assert.deepInclude(session, { status, metadata })
          }
        })
      })
  )

  it.effect("pass a reviewer's question to the model once, and wait on when it calls again", () =>
    Effect.gen(function* () {
      const { post, run } = yield* codingAgent("http asked")
      yield* Effect.promise(async () => {
        const waiting = post(call("refund"))
        const approval = await run.say("refund", 'Why "50"?')
        const asked = await waiting
        assert.strictEqual(asked.decision, "deny")
        assert.include(asked.reason, String.raw`A reviewer asks: "Why \"50\"?".`)
        assert.include(asked.reason, `it goes on waiting for approval ${approval}`)
        const [question, receipt, ...others] = await run.conversation(approval)
        assert.strictEqual(question, 'reviewer: Why "50"?')
        assert.include(receipt, "agent: Your message was passed to the model")
        assert.deepStrictEqual(others, [])
        const again = post(call("refund", { tool_use_id: "toolu_again" }))
        // It waits: the next question ends it.
        await run.say("refund", "And now?")
        assert.include((await again).reason, 'A reviewer asks: "And now?".')
        const last = post(call("refund", { tool_use_id: "toolu_last" }))
        await run.decide("approve", "refund")
        assert.strictEqual((await last).decision, "allow")
        assert.lengthOf((await run.client.approvals.list()).approvals, 1)
      })
    })
  )

  it.effect("show a question to a deferred run, and tell what a reviewer wants changed", () =>
    Effect.gen(function* () {
      const { post, run } = yield* codingAgent("http changes")
      yield* Effect.promise(async () => {
        const query = "defer=true"
        await post(call("refund"), { query })
        await run.say("refund", "Why?")
        const deferred = await post(call("refund"), { query })
        assert.strictEqual(deferred.decision, "defer")
        assert.include(deferred.reason, 'A reviewer asks: "Why?".')
        await run.decide("request_changes", "refund", { comment: "At most 20" })
        const rejected = await post(call("refund"), { query })
        assert.strictEqual(rejected.decision, "deny")
        assert.include(rejected.reason, 'What they want changed: "At most 20".')
      })
    })
  )

  it.effect("go on with the approval of a request whose client has gone", () =>
    Effect.gen(function* () {
      const { post, run } = yield* codingAgent("http gone")
      yield* Effect.promise(async () => {
        const abort = new AbortController()
        const gone = post(call("refund"), { signal: abort.signal }).catch(() => "gone")
        for (;;) {
          const { approvals } = await run.client.approvals.list({ query: { status: "pending" } })
          if (approvals.length === 1) break
        }
        abort.abort()
        await gone
        // The service notices that the connection is closed.
        for (let n = 0; ; n++) {
          const next = await post(call("refund", { tool_use_id: `toolu_${n}` }), { query: "wait_seconds=0" })
          const { approvals } = await run.client.approvals.list({ query: { status: "pending" } })
          if (next.reason.includes(approvals.at(-1)?.approval_id ?? "none")) break
          assert.isBelow(n, 20)
        }
      })
    })
  )

  it.effect("defer a call, and decide it when the run is resumed", () =>
    Effect.gen(function* () {
      const { post, run } = yield* codingAgent("http defers")
      yield* Effect.promise(async () => {
        const query = "defer=true"
        assert.strictEqual((await post(call("refund"), { query })).decision, "defer")
        await post(ended(claudeCode2), { query })
        assert.strictEqual((await post(call("refund"), { query })).decision, "defer")
        await run.decide("approve", "refund")
        assert.strictEqual((await post(call("refund"), { query })).decision, "allow")
        const bypass = call("refund", { tool_use_id: "toolu_2", permission_mode: "bypassPermissions" })
        assert.strictEqual((await post(bypass, { query: "defer=true&wait_seconds=0" })).decision, "deny")
      })
    })
  )

  it.effect("end a run at one call, and leave the others of its turn to be called again", () =>
    Effect.gen(function* () {
      const { post, run } = yield* codingAgent("http defers several")
      yield* Effect.promise(async () => {
        const query = "defer=true"
        const amounts = [1, 2, 3]
        const numbered = (n: number) => call("refund", { tool_use_id: `toolu_${n}`, tool_input: { n } })
        const answers = await Promise.all(amounts.map((n) => post(numbered(n), { query })))
        assert.deepStrictEqual(answers.map(({ decision }) => decision).toSorted(), ["defer", "deny", "deny"])
        await post(ended(claudeCode2), { query })
        for (const n of amounts) await run.decide("approve", "refund", { arguments: { n } })
        for (const [index, { decision }] of answers.entries()) {
          const n = amounts[index] ?? 0
          const again =
            decision === "defer" ? numbered(n) : { ...numbered(n), tool_use_id: `toolu_again_${n}` }
          assert.strictEqual((await post(again, { query })).decision, "allow")
        }
        assert.lengthOf((await run.client.approvals.list({ query: {} })).approvals, amounts.length)
      })
    })
  )

  it.effect("keep the sessions of two keys apart", () =>
    Effect.gen(function* () {
      const { countersign, post, run, sessions } = yield* codingAgent("http keys")
      const admin = yield* countersign.client({ name: "admin" }, "http keys")
      const { secret } = yield* admin.apiKeys.create({ payload: { name: "second", preset: "runtime" } })
      yield* Effect.promise(async () => {
        await post(call("read"))
        assert.strictEqual((await post(call("read"), { key: secret })).decision, "allow")
        assert.lengthOf(await sessions(), 2)
        assert.isString(run.key)
      })
    })
  )

  it.effect("answer what they do not understand with a denial and status 200", () =>
    Effect.gen(function* () {
      const { post } = yield* codingAgent("http faults")
      yield* Effect.promise(async () => {
        const text = JSON.stringify(claudeCode1)
        for (const [body, reason] of [
          [text.slice(0, -9), /body|JSON/iu],
          ["", /JSON/iu],
          ["[]", /not a JSON object/u],
          ["null", /not a JSON object/u],
          ['{"a":1,"a":2}', /./u],
          [text.replace("npm test", String.raw`\ud83d`), /./u],
          [text.replace("npm test", String.raw`\u0000`), /./u],
          ["[".repeat(200), /./u],
          [
            JSON.stringify({ ...claudeCode1, tool_input: "x".repeat(5 * 2 ** 20) }),
            /limit of 4194304 bytes/u
          ],
          [{ ...claudeCode1, hook_event_name: "BeforeTool" }, /does not govern the event/u],
          [{ ...claudeCode1, tool_use_id: undefined }, /`tool_use_id` of PreToolUse is missing/u],
          [{ ...claudeCode1, tool_use_id: "a\nb" }, /not one that Countersign accepts/u],
          [{ ...claudeCode1, tool_use_id: ".." }, /not one that Countersign accepts/u],
          [codexPermission(codex1), /PermissionRequest over HTTP/u]
        ] as const) {
          const { answer, reason: told, status } = await post(body)
          const shown = JSON.stringify(body).slice(0, 60)
          assert.strictEqual(status, 200, shown)
          assert.match(
            JSON.stringify(answer),
            /"permissionDecision":"deny"|"decision":"block"|"behavior":"deny"/u,
            shown
          )
          assert.match(told + JSON.stringify(answer), reason, shown)
        }
        const { answer, status } = await post(call("read"), { query: "wait_seconds=1000" })
        assert.deepStrictEqual([status, answer["decision"]], [200, "block"])
      })
    })
  )

  it.effect("refuse a key by its status", () =>
    Effect.gen(function* () {
      const { countersign, post } = yield* codingAgent("http refused")
      const admin = yield* countersign.client({ name: "admin" }, "http refused")
      const reviewer = yield* admin.apiKeys.create({ payload: { name: "Ada", preset: "reviewer" } })
      yield* Effect.promise(async () => {
        assert.strictEqual((await post(call("read"), { key: "csk_wrong" })).status, 401)
        assert.strictEqual((await post(call("read"), { key: reviewer.secret })).status, 403)
      })
    })
  )

  it.effect("take a megabyte of odd arguments from a subagent", () =>
    Effect.gen(function* () {
      const { post } = yield* codingAgent("http large")
      yield* Effect.promise(async () => {
        const input = { "\u202e": "🙂‍↔️ é\t中", long: "x".repeat(2 ** 20) }
        const large = { ...claudeCodeSubagent, tool_name: "read", tool_input: input }
        assert.strictEqual((await post(large)).decision, "allow")
        assert.deepStrictEqual((await post(succeeded(large, "y".repeat(2 ** 20)))).answer, {})
      })
    })
  )
})

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("HTTP hooks that wait", (it) => {
  const waitFor = (count: number) =>
    Effect.flatMap(DecisionWaits, ({ waiting }) =>
      Effect.repeat(waiting, { until: (waits) => waits === count, schedule: Schedule.spaced("20 millis") })
    )

  it.effect("are answered when their key is revoked, and when the service stops", () =>
    Effect.gen(function* () {
      const { countersign, post, run } = yield* codingAgent("http ends")
      const admin = yield* countersign.client({ name: "admin" }, "http ends")
      const second = yield* admin.apiKeys.create({ payload: { name: "second", preset: "runtime" } })
      const query = "wait_seconds=540"
      const revoked = post(call("refund"), { key: second.secret, query })
      const stopped = post(call("refund"), { query })
      yield* waitFor(2)
      yield* admin.apiKeys.revoke({ params: { id: second.key.id }, query: {} })
      assert.strictEqual((yield* Effect.promise(() => revoked)).decision, "deny")
      yield* waitFor(1)
      yield* Effect.flatMap(DecisionWaits, ({ endAll }) => endAll)
      assert.include((yield* Effect.promise(() => stopped)).reason, "still waiting for approval")
      // The next replica goes on with the approval.
      yield* Effect.promise(() => run.decide("approve", "refund"))
      const { approvals } = yield* Effect.promise(() => run.client.approvals.list({ query: {} }))
      assert.lengthOf(approvals, 2)
    })
  )
})

layer(service({ environment: { COUNTERSIGN_RATE_LIMIT_PER_SECOND: "1" } }), { excludeTestServices: true })(
  "HTTP hooks of a key that sends too much",
  (it) => {
    it.effect("are denied, not answered with an error that lets the call pass", () =>
      Effect.gen(function* () {
        const { post } = yield* codingAgent("http flood")
        const answers = yield* Effect.promise(() =>
          Promise.all(Array.from({ length: 40 }, () => post(call("read"))))
        )
        assert.deepStrictEqual([...new Set(answers.map(({ status }) => status))], [200])
        const denied = answers.find(({ reason }) => reason.includes("Rate limit exceeded"))
        assert.strictEqual(denied?.decision ?? denied?.answer["decision"], "block")
      })
    )
  }
)

/** The log of the service whose database fails. */
const logged: Array<string> = []
const logger = Logger.map(Logger.formatJson, (line) => void logged.push(line))

layer(service().pipe(Layer.provide(Logger.layer([logger]))), { excludeTestServices: true })(
  "HTTP hooks of a service that fails",
  (it) => {
    /** Makes the statements that write steps fail with an SQLSTATE. */
    const failing = Effect.fnUntraced(function* (state: string) {
      const sql = yield* SqlClient.SqlClient
      yield* sql.unsafe(`
        CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN RAISE EXCEPTION 'failed' USING ERRCODE = '${state}'; END $$
      `)
      yield* sql`
        CREATE OR REPLACE TRIGGER fails BEFORE INSERT ON governed_steps FOR EACH STATEMENT EXECUTE FUNCTION fail()
      `
    })

    const faults: ReadonlyArray<readonly [what: string, state: string, reason: RegExp, line: string]> = [
      ["a defect", "22012", /internal error/iu, "Unhandled error while serving a request"],
      ["an unavailable database", "55P03", /database is unavailable/iu, "The database could not serve"]
    ]
    it.effect.each(faults)(
      "deny a call after %s, with the request id of its log line",
      ([, state, why, line]) =>
        Effect.gen(function* () {
          const { post } = yield* codingAgent(`http ${state}`)
          yield* failing(state)
          const denied = yield* Effect.promise(() => post(call("read")))
          assert.deepStrictEqual([denied.status, denied.answer["decision"]], [200, "block"])
          assert.match(denied.reason, why)
          assert.include(denied.reason, denied.requestId)
          const found = logged.find((text) => text.includes(denied.requestId) && text.includes(line))
          assert.isDefined(found)
        })
    )

    it.effect("deny a call whose key cannot be verified", () =>
      Effect.gen(function* () {
        const { countersign, post } = yield* codingAgent("http unverified")
        const admin = yield* countersign.client({ name: "admin" }, "http unverified")
        const { secret } = yield* admin.apiKeys.create({ payload: { name: "new", preset: "runtime" } })
        const sql = yield* SqlClient.SqlClient
        yield* sql`ALTER TABLE api_keys RENAME TO elsewhere`
        const denied = yield* Effect.promise(() => post(call("read"), { key: secret }))
        yield* sql`ALTER TABLE elsewhere RENAME TO api_keys`
        assert.deepStrictEqual([denied.status, denied.answer["decision"]], [200, "block"])
        assert.include(denied.reason, denied.requestId)
      })
    )
  }
)
