import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Redacted, Result, Stream } from "effect"
import { SqlClient } from "effect/sql"
import type { ClientCalls } from "../../../src/client/Client.ts"
import { MAX_MESSAGE_RATE, MAX_MESSAGES } from "../../../src/domain/approvals/ApprovalMessage.ts"
import { type ApprovalId, StepId } from "../../../src/domain/Ids.ts"
import { DecisionWaits } from "../../../src/server/approvals/DecisionWaits.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { databaseAsText } from "../../support/databaseAsText.ts"
import { completed } from "../../support/deletion.ts"
import { eventually } from "../../support/eventually.ts"
import { clientMadeBy, pointersOf, send, service } from "../../support/service.ts"
import { layerTwoReplicas, SecondReplica } from "../../support/twoReplicas.ts"

const message = (client: ClientCalls, id: ApprovalId, text: string) =>
  client.approvals.sendMessage({ params: { id }, payload: { text } })

const conversation = (client: ClientCalls, id: ApprovalId, after?: number) =>
  Effect.map(
    client.approvals.listMessages({ params: { id }, query: after === undefined ? {} : { after } }),
    ({ messages }) =>
      messages.map(({ number, sender, sent_by, text }) => [number, sender, sent_by.name, text])
  )

/** An organization whose step waits, with its agent and two reviewers. */
const waitingStep = Effect.fnUntraced(function* (organization: string) {
  const countersign = yield* Countersign
  const admin = yield* countersign.client({ name: "admin" }, organization)
  const agent = yield* clientMadeBy(admin, { preset: "runtime", name: "agent" })
  const ada = yield* countersign.client({ preset: "reviewer", name: "Ada" }, organization)
  const { session_id } = yield* agent.sessions.create({ payload: { metadata: { customer: organization } } })
  const params = { id: session_id }
  const submit = (query: { wait_seconds?: number; after_message?: number } = {}, name = "refund") =>
    agent.sessions.step({
      params,
      query,
      payload: {
        step_id: StepId.make(name),
        tool: "refund",
        action_class: "write",
        arguments: { amount: 50 }
      }
    })
  const { approval_id } = yield* submit()
  const id = approval_id ?? assert.fail("the step waits")
  return { ada, admin, agent, countersign, id, params, session_id, submit }
})

/** Returns once so many requests wait on this replica. */
const waitFor = (count: number) =>
  Effect.flatMap(DecisionWaits, ({ waiting }) => eventually(waiting, (waits) => waits === count))

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("Messages about an approval", (it) => {
  it.effect("go both ways, end the agent's wait once each, and are in its stream in order", () =>
    Effect.gen(function* () {
      const { ada, agent, id, session_id, submit } = yield* waitingStep("talk")
      const waiting = yield* Effect.forkChild(submit({ wait_seconds: 60 }))
      yield* waitFor(1)
      const asked = yield* message(ada, id, "Why 50?")
      assert.deepInclude(asked, { number: 1, sender: "reviewer", text: "Why 50?" })
      const woken = yield* Fiber.join(waiting)
      assert.strictEqual(woken.decision, "pending")
      assert.deepStrictEqual(woken.messages, [asked])
      // The next wait is for the next message, whether or not the agent says what it has seen.
      const second = yield* Effect.forkChild(submit({ wait_seconds: 60 }))
      const third = yield* Effect.forkChild(submit({ wait_seconds: 60, after_message: 1 }))
      yield* waitFor(2)
      yield* message(agent, id, "The order was damaged.")
      assert.deepStrictEqual((yield* submit()).messages, undefined, "the agent has answered")
      yield* waitFor(2)
      yield* message(ada, id, "Which photo?\n\u{202e}\u200b<b>")
      const seen = (yield* Fiber.join(second)).messages?.map(({ number }) => number)
      assert.deepStrictEqual(seen, [3])
      assert.deepStrictEqual(
        (yield* Fiber.join(third)).messages?.map(({ number }) => number),
        [3]
      )
      // One that it has not seen is answered at once, one that it has seen ends no wait.
      assert.lengthOf((yield* submit({ wait_seconds: 60, after_message: 2 })).messages ?? [], 1)
      assert.strictEqual((yield* submit({ wait_seconds: 1, after_message: 3 })).messages, undefined)
      assert.deepStrictEqual(yield* conversation(agent, id), [
        [1, "reviewer", "Ada", "Why 50?"],
        [2, "agent", "agent", "The order was damaged."],
        [3, "reviewer", "Ada", "Which photo?\n\u{202e}\u200b<b>"]
      ])
      assert.lengthOf(yield* conversation(ada, id, 2), 1)
      yield* ada.approvals.decide({ params: { id }, payload: { decision: "approve" } })
      const events = yield* agent.stream(session_id).pipe(
        Stream.takeUntil(({ type }) => type === "approval:decided"),
        Stream.runCollect
      )
      assert.deepStrictEqual(
        Array.from(events, (event) =>
          event.type === "approval:message" ? event.message.number : event.type
        ),
        ["step:governed", "approval:requested", 1, 2, 3, "approval:decided"]
      )
      assert.lengthOf(yield* conversation(agent, id), 3, "the conversation stays")
    })
  )

  it.effect("are refused to other organizations and sessions, and by scope", () =>
    Effect.gen(function* () {
      const { ada, countersign, id } = yield* waitingStep("mine")
      const stranger = yield* countersign.client({}, "theirs")
      assert.strictEqual((yield* Effect.flip(message(stranger, id, "hi")))._tag, "NOT_FOUND")
      assert.strictEqual((yield* Effect.flip(conversation(stranger, id)))._tag, "NOT_FOUND")
      const other = yield* countersign.client({ scopes: ["sessions.write"], name: "other agent" }, "mine")
      assert.strictEqual((yield* Effect.flip(message(other, id, "hi")))._tag, "SESSION_OF_ANOTHER_KEY")
      assert.strictEqual((yield* Effect.flip(conversation(other, id)))._tag, "SESSION_OF_ANOTHER_KEY")
      const integration = yield* countersign.client({ preset: "integration", name: "widget" }, "mine")
      assert.strictEqual((yield* Effect.flip(message(integration, id, "hi")))._tag, "INSUFFICIENT_SCOPE")
      assert.deepStrictEqual(yield* conversation(ada, id), [])
    })
  )

  it.effect("come from the agent if its key submitted the step, whatever its scopes", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const all = yield* countersign.client({ name: "all scopes" }, "one key")
      const { session_id } = yield* all.sessions.create({})
      const { approval_id } = yield* all.sessions.step({
        params: { id: session_id },
        payload: { step_id: StepId.make("1"), tool: "refund", action_class: "write" }
      })
      const id = approval_id ?? assert.fail("the step waits")
      assert.strictEqual((yield* message(all, id, "I wait")).sender, "agent")
      const maker = yield* countersign.client({ name: "person" }, "one key")
      assert.strictEqual((yield* message(maker, id, "Why?")).sender, "reviewer")
    })
  )

  it.effect("need a visible text of at most 4,000 characters", () =>
    Effect.gen(function* () {
      const { id } = yield* waitingStep("texts")
      const key = yield* (yield* Countersign).key({}, "texts")
      for (const body of [
        { text: "" },
        { text: " \n" },
        { text: "\u200b\u{202e}\u{feff}" },
        { text: "x".repeat(4_001) },
        { text: "a\u0000b" },
        { text: 1 },
        {},
        { text: "hi", sender: "reviewer" }
      ]) {
        const answer = yield* send(`/v1/agent-approvals/${id}/messages`, {
          key,
          method: "POST",
          body: JSON.stringify(body)
        })
        assert.deepStrictEqual([body, answer.status, answer.body["code"]], [body, 400, "INVALID_REQUEST"])
      }
      for (const after of ["-1", "1.5", "x"]) {
        const { status } = yield* send(`/v1/agent-approvals/${id}/messages?after=${after}`, { key })
        assert.strictEqual(status, 400)
      }
      const beyond = yield* send(`/v1/agent-approvals/${id}/messages?after=9007199254740991`, { key })
      assert.deepStrictEqual(beyond.body, { messages: [] })
    })
  )

  it.effect("are refused once the approval is decided, has expired, or its session was closed", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ada, agent, id, params, submit } = yield* waitingStep("closed")
      yield* ada.approvals.decide({ params: { id }, payload: { decision: "reject" } })
      for (const client of [ada, agent]) {
        const refused = yield* Effect.flip(message(client, id, "late"))
        assert.strictEqual(refused._tag, "APPROVAL_ALREADY_DECIDED")
        if (refused._tag === "APPROVAL_ALREADY_DECIDED")
          assert.strictEqual(refused.approval.status, "rejected")
      }
      const expired = (yield* submit({}, "expires")).approval_id ?? assert.fail("the step waits")
      // The deadline worker looks at the time of the next transition, which stays.
      yield* sql`UPDATE approvals SET expires_at = now() - interval '1 second' WHERE approval_id = ${expired}`
      assert.strictEqual((yield* Effect.flip(message(ada, expired, "late")))._tag, "APPROVAL_EXPIRED")
      const closed = (yield* submit({}, "closes")).approval_id ?? assert.fail("the step waits")
      yield* agent.sessions.close({ params })
      assert.strictEqual((yield* Effect.flip(message(ada, closed, "late")))._tag, "APPROVAL_EXPIRED")
    })
  )

  it.effect("are stored, streamed and answered without secrets", () =>
    Effect.gen(function* () {
      const { ada, agent, countersign, id, submit } = yield* waitingStep("secrets")
      const secret = Redacted.value(yield* countersign.key({ name: "leaked" }, "secrets"))
      const other = `ghp_${"a1B2c3D4e5F6".repeat(3)}`
      const asked = yield* message(ada, id, `Use ${secret} and ${other}`)
      yield* message(agent, id, `I have ${secret}`)
      yield* ada.approvals.decide({
        params: { id },
        payload: { decision: "request_changes", comment: `Not with ${secret}` }
      })
      const stored = yield* databaseAsText
      for (const text of [asked.text, JSON.stringify(yield* submit()), stored]) {
        assert.notInclude(text, secret)
        assert.notInclude(text, other)
      }
    })
  )

  it.effect("are bounded for each side: in all, and in a minute", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ada, agent, id } = yield* waitingStep("flood")
      const burst = yield* Effect.forEach(
        Array.from({ length: 2 * MAX_MESSAGE_RATE }),
        (_, index) => Effect.result(message(agent, id, `spam ${index}`)),
        { concurrency: "unbounded" }
      )
      assert.lengthOf(burst.filter(Result.isSuccess), MAX_MESSAGE_RATE)
      const tags = burst.flatMap((one) => (Result.isFailure(one) ? [one.failure._tag] : []))
      assert.deepStrictEqual([...new Set(tags)], ["RATE_LIMITED"])
      // The flood of one side leaves the other its own messages.
      yield* message(ada, id, "Stop it")
      const key = yield* (yield* Countersign).key({}, "flood")
      yield* sql`
        INSERT INTO approval_messages (org_id, approval_id, number, session_id, sender, sent_by_id, sent_by_name, sent_at, text)
        SELECT org_id, approval_id, 100 + n, session_id, 'reviewer', 'key', 'Ada', now() - interval '1 hour', 'old'
        FROM approvals, generate_series(1, ${MAX_MESSAGES - 1}) n
        WHERE approval_id = ${id}
      `
      assert.strictEqual((yield* Effect.flip(message(ada, id, "more")))._tag, "LIMIT_REACHED")
      const limited = yield* send(`/v1/agent-approvals/${id}/messages`, {
        key,
        method: "POST",
        body: JSON.stringify({ text: "more" })
      })
      assert.strictEqual(limited.status, 409)
    })
  )

  it.effect("are sent once if the request is repeated with its idempotency key", () =>
    Effect.gen(function* () {
      const { ada, id } = yield* waitingStep("repeated")
      const once = ada.approvals.sendMessage({
        params: { id },
        headers: { "idempotency-key": "one" },
        payload: { text: "Why?" }
      })
      assert.deepStrictEqual(yield* once, yield* once)
      assert.lengthOf(yield* conversation(ada, id), 1)
    })
  )

  it.effect("are deleted with their session", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ada, admin, agent, id } = yield* waitingStep("erased customer")
      yield* message(ada, id, "What is the customer's iban?")
      yield* message(agent, id, "unmistakable answer")
      const deletion = yield* admin.deletions.erase({
        payload: { metadata_key: "customer", metadata_value: "erased customer" }
      })
      yield* completed(admin, deletion.id)
      assert.deepStrictEqual(yield* sql`SELECT 1 FROM approval_messages WHERE approval_id = ${id}`, [])
      assert.deepStrictEqual(
        yield* sql`SELECT 1 FROM session_events WHERE data::text LIKE '%unmistakable answer%'`,
        []
      )
      assert.strictEqual((yield* Effect.flip(conversation(ada, id)))._tag, "NOT_FOUND")
    })
  )
})

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("Requested changes", (it) => {
  it.effect("reject the step with the comment as its instruction, and are audited by their name", () =>
    Effect.gen(function* () {
      const { ada, admin, id, submit } = yield* waitingStep("changes")
      const waiting = yield* Effect.forkChild(submit({ wait_seconds: 60 }))
      yield* waitFor(1)
      const request = {
        params: { id },
        payload: { decision: "request_changes" as const, comment: "At most 20" }
      }
      const decided = yield* ada.approvals.decide(request)
      assert.deepInclude(decided, {
        status: "rejected",
        outcome: "reject",
        changes_requested: true,
        comment: "At most 20"
      })
      assert.deepStrictEqual(yield* ada.approvals.decide(request), decided, "idempotent")
      const reject = ada.approvals.decide({ params: { id }, payload: { decision: "reject" } })
      assert.strictEqual((yield* Effect.flip(reject))._tag, "APPROVAL_ALREADY_DECIDED")
      assert.deepInclude(yield* Fiber.join(waiting), {
        decision: "reject",
        decision_source: "human",
        changes_requested: true,
        comment: "At most 20"
      })
      const { events } = yield* admin.events.list({ query: { type: "approval.rejected" } })
      assert.deepStrictEqual(
        events.map(({ approval, type }) => [type, approval.approval_id]),
        [["approval.rejected", id]]
      )
      const { entries } = yield* admin.auditLog.list({ query: { target_id: id } })
      assert.deepStrictEqual(
        entries.map(({ action, actor }) => [action, actor?.name]),
        [["approval.changes_requested", "Ada"]]
      )
    })
  )

  it.effect("need a comment that says what to change, for one approval and for many", () =>
    Effect.gen(function* () {
      const { ada, id, submit } = yield* waitingStep("no instruction")
      const second = (yield* submit({}, "second")).approval_id ?? assert.fail("the step waits")
      for (const comment of [undefined, null, "", " \n", "\u200b"]) {
        const given = comment === undefined ? {} : { comment }
        const one = yield* Effect.flip(
          ada.approvals.decide({ params: { id }, payload: { decision: "request_changes", ...given } })
        )
        assert.deepStrictEqual([one._tag, pointersOf(one)], ["INVALID_REQUEST", ["#/comment"]])
        const many = yield* Effect.flip(
          ada.approvals.decideMany({
            payload: { approval_ids: [id], decision: "request_changes", ...given }
          })
        )
        assert.deepStrictEqual([many._tag, pointersOf(many)], ["INVALID_REQUEST", ["#/comment"]])
      }
      const { results } = yield* ada.approvals.decideMany({
        payload: {
          approval_ids: [id, second],
          decision: "request_changes",
          comment: "At most 20"
        }
      })
      assert.deepStrictEqual(
        results.map(({ approval }) => [approval?.status, approval?.changes_requested]),
        [
          ["rejected", true],
          ["rejected", true]
        ]
      )
    })
  )

  it.effect("can propose arguments, and grant nothing", () =>
    Effect.gen(function* () {
      const { ada, agent, id, params } = yield* waitingStep("changes with a proposal")
      const granted = ada.approvals.decide({
        params: { id },
        payload: { decision: "request_changes", comment: "less", grant: { scope: "tool" } }
      })
      assert.strictEqual((yield* Effect.flip(granted))._tag, "INVALID_REQUEST")
      yield* ada.approvals.decide({
        params: { id },
        payload: { decision: "request_changes", comment: "less", proposed_arguments: { amount: 20 } }
      })
      const step = yield* agent.sessions.step({
        params,
        payload: {
          step_id: StepId.make("again"),
          tool: "refund",
          action_class: "write",
          arguments: { amount: 20 }
        }
      })
      assert.deepInclude(step, { decision: "allow", decision_source: "counter_proposal" })
    })
  )
})

layer(layerTwoReplicas, { excludeTestServices: true, timeout: "60 seconds" })(
  "Messages › two replicas",
  (it) => {
    it.effect(
      "a message is before the decision or refused, however they race, and numbers have no gaps",
      () =>
        Effect.gen(function* () {
          const first = yield* Countersign
          const second = yield* Effect.provideContext(Countersign, yield* SecondReplica)
          const adminKey = yield* first.key({}, "races")
          const admin = yield* first.clientWith(adminKey)
          const agentKey = yield* admin.apiKeys.create({ payload: { name: "agent", preset: "runtime" } })
          const agents = [
            yield* first.clientWith(Redacted.make(agentKey.secret)),
            yield* second.clientWith(Redacted.make(agentKey.secret))
          ]
          const reviewers = [admin, yield* second.clientWith(adminKey)]
          const [agent = assert.fail("an agent")] = agents
          const { session_id } = yield* agent.sessions.create({})
          const rounds = Array.from({ length: 12 }, (_, index) => index)
          const accepted = yield* Effect.forEach(rounds, (round) =>
            Effect.gen(function* () {
              const { approval_id } = yield* agent.sessions.step({
                params: { id: session_id },
                payload: { step_id: StepId.make(`step ${round}`), tool: "refund", action_class: "write" }
              })
              const id = approval_id ?? assert.fail("the step waits")
              const none: ReadonlyArray<number> = []
              const sent = [0, 1, 2, 3].flatMap((n) =>
                [...agents, ...reviewers].map((client, index) =>
                  Effect.match(message(client, id, `${n} ${index}`), {
                    onFailure: () => none,
                    onSuccess: ({ number }): ReadonlyArray<number> => [number]
                  })
                )
              )
              const decider = reviewers[round % 2] ?? assert.fail("a reviewer")
              const decide = decider.approvals.decide({ params: { id }, payload: { decision: "approve" } })
              sent.splice(round, 0, Effect.as(Effect.exit(decide), none))
              const numbers = yield* Effect.all(sent, { concurrency: "unbounded" })
              return [id, numbers.flat()] as const
            })
          )
          yield* agent.sessions.close({ params: { id: session_id } })
          const events = yield* Stream.runCollect(agent.stream(session_id))
          for (const [id, numbers] of accepted) {
            const ofApproval = Array.from(events).flatMap((event): ReadonlyArray<number | string> => {
              if (event.type === "approval:message")
                return event.approval_id === id ? [event.message.number] : []
              return event.type === "approval:decided" && event.approval.approval_id === id ? ["decided"] : []
            })
            const expected = numbers.toSorted((a, b) => a - b)
            assert.deepStrictEqual(
              expected,
              expected.map((_, index) => index + 1)
            )
            assert.deepStrictEqual(ofApproval, [...expected, "decided"])
          }
        })
    )

    it.effect("a message through one replica ends a wait at the other", () =>
      Effect.gen(function* () {
        const first = yield* Countersign
        const context = yield* SecondReplica
        const second = yield* Effect.provideContext(Countersign, context)
        const waits = yield* Effect.provideContext(DecisionWaits, context)
        const admin = yield* first.client({}, "woken")
        const created = yield* admin.apiKeys.create({ payload: { name: "agent", preset: "runtime" } })
        const agent = yield* second.clientWith(Redacted.make(created.secret))
        const { session_id } = yield* agent.sessions.create({})
        const submit = (wait_seconds: number) =>
          agent.sessions.step({
            params: { id: session_id },
            query: { wait_seconds },
            payload: { step_id: StepId.make("1"), tool: "refund", action_class: "write" }
          })
        const { approval_id } = yield* submit(0)
        const waiting = yield* Effect.forkChild(submit(60))
        yield* eventually(waits.waiting, (count) => count === 1)
        yield* message(admin, approval_id ?? assert.fail("it waits"), "Why?")
        assert.deepStrictEqual(
          (yield* Fiber.join(waiting)).messages?.map(({ text }) => text),
          ["Why?"]
        )
      })
    )
  }
)
