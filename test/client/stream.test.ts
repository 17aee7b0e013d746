import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Redacted, Stream } from "effect"
import { HttpServer } from "effect/http"
import { NetAddress } from "effect/net"
import { SqlClient } from "effect/sql"
import { Client } from "../../src/client/Client.ts"
import { connect } from "../../src/client/index.ts"
import { type OrgId, SessionId, StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { breakingProxy } from "../support/breakingProxy.ts"
import { service } from "../support/service.ts"
import { closeSession, recordOutcomes } from "../support/sessions.ts"

/** A key with its client and a session. */
const agent = Effect.gen(function* () {
  const countersign = yield* Countersign
  const sql = yield* SqlClient.SqlClient
  const key = yield* countersign.key({ preset: "admin" })
  const client = yield* countersign.clientWith(key)
  const { session_id } = yield* client.sessions.create({})
  const [row] = yield* sql<{ org_id: OrgId }>`
    SELECT org_id FROM agent_sessions WHERE session_id = ${session_id}
  `
  if (row === undefined) throw new Error("the session is not in the database")
  return { client, key, session: { org_id: row.org_id, session_id }, session_id }
})

const port = Effect.map(HttpServer.HttpServer, ({ address }) =>
  NetAddress.isInetAddress(address) ? address.port : 0
)

const range = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, i) => first + i)

const refund = {
  step_id: StepId.make("step 1"),
  tool: "payments.refund",
  action_class: "write",
  arguments: { order: "4711" }
}

layer(service(), { excludeTestServices: true })("Client.stream", (it) => {
  it.effect("receives each of 5,000 events once and in order over a connection that breaks 200 times", () =>
    Effect.gen(function* () {
      const { key, session, session_id } = yield* agent
      const proxy = yield* breakingProxy({ port: yield* port, breaks: 200, bytes: 8_000, seed: 7 })
      const broken = yield* Effect.provide(Client, Client.layer({ url: proxy.url, key }))
      const seen: Array<number> = []
      const following = yield* broken.stream(session_id, { reconnect: "1 millis" }).pipe(
        Stream.runForEach(({ id }) => Effect.sync(() => void seen.push(id))),
        Effect.forkChild
      )
      yield* Effect.forEach(range(1, 500), () => recordOutcomes(session, 10), {
        concurrency: 4,
        discard: true
      })
      yield* closeSession(session)
      yield* Fiber.join(following)
      assert.deepStrictEqual(seen, range(1, 5_001))
      assert.strictEqual(proxy.breaks(), 200)
    }).pipe(Effect.scoped)
  )

  it.effect(
    "of the promise client receives each of 1,000 events once and in order over 40 broken connections",
    () =>
      Effect.gen(function* () {
        const { key, session, session_id } = yield* agent
        const proxy = yield* breakingProxy({ port: yield* port, breaks: 40, bytes: 8_000, seed: 11 })
        yield* recordOutcomes(session, 1_000)
        yield* closeSession(session)
        const seen = yield* Effect.promise(async () => {
          await using broken = connect({ url: proxy.url, key: Redacted.value(key) })
          const numbers: Array<number> = []
          for await (const { id } of broken.stream(session_id, { reconnect: "1 millis" })) numbers.push(id)
          return numbers
        })
        assert.deepStrictEqual(seen, range(1, 1_001))
        assert.strictEqual(proxy.breaks(), 40)
      }).pipe(Effect.scoped)
  )

  it.effect("resumes after a number, yields typed events, and ends with the session", () =>
    Effect.gen(function* () {
      const { client, session_id } = yield* agent
      const params = { id: session_id }
      const asked = yield* client.sessions.step({ params, payload: refund })
      yield* client.sessions.close({ params })
      const events = yield* Stream.runCollect(client.stream(session_id, { after: 1 }))
      assert.deepStrictEqual(
        events.map(({ type }) => type),
        ["approval:requested", "approval:decided", "session:closed"]
      )
      const [, decided] = events
      if (decided?.type !== "approval:decided") throw new Error("the second is the decision")
      assert.strictEqual(decided.approval.approval_id, asked.approval_id)
      assert.strictEqual(decided.approval.decision_source, "session_closed")
      assert.notProperty(decided.approval, "arguments")
      assert.deepStrictEqual(yield* Stream.runCollect(client.stream(session_id, { after: 4 })), [])
    })
  )

  it.effect("fails with the problem if a retry would not help", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const sql = yield* SqlClient.SqlClient
      const { client, session, session_id } = yield* agent
      const failure = (...args: Parameters<typeof client.stream>) =>
        Effect.map(Effect.flip(Stream.runDrain(client.stream(...args))), (error) => error._tag)
      assert.strictEqual(yield* failure(yield* SessionId.generate), "NOT_FOUND")
      assert.strictEqual(yield* failure(session_id, { after: 1 }), "INVALID_REQUEST")
      yield* recordOutcomes(session, 3)
      yield* sql`DELETE FROM session_events WHERE session_id = ${session_id} AND number < 3`
      assert.strictEqual(yield* failure(session_id, { after: 1 }), "CURSOR_EXPIRED")
      const stranger = yield* countersign.clientWith(Redacted.make("csk_nobody"))
      const refused = yield* Effect.flip(Stream.runDrain(stranger.stream(session_id)))
      assert.strictEqual(refused._tag, "INVALID_API_KEY")
      const blind = yield* countersign.client({ scopes: ["feedback.read"] })
      const lacking = yield* Effect.flip(Stream.runDrain(blind.stream(session_id)))
      assert.strictEqual(lacking._tag, "INSUFFICIENT_SCOPE")
    })
  )

  it.effect("is an async iterable in the promise client, ended by leaving the loop or by a signal", () =>
    Effect.gen(function* () {
      const { url } = yield* Countersign
      const { key, session, session_id } = yield* agent
      yield* recordOutcomes(session, 5)
      yield* Effect.promise(async () => {
        await using plain = connect({ url, key: Redacted.value(key) })
        const seen: Array<number> = []
        for await (const { id } of plain.stream(session_id)) {
          seen.push(id)
          if (id === 4) break
        }
        assert.deepStrictEqual(seen, [1, 2, 3, 4])
        const controller = new AbortController()
        const reason = new Error("enough")
        let thrown: unknown
        try {
          for await (const { id } of plain.stream(session_id, { after: 4, signal: controller.signal })) {
            seen.push(id)
            controller.abort(reason)
          }
        } catch (error) {
          thrown = error
        }
        assert.strictEqual(thrown, reason)
        assert.deepStrictEqual(seen, [1, 2, 3, 4, 5])
      })
    })
  )
})

layer(service(), { excludeTestServices: true })("govern", (it) => {
  /** Decides the session's only approval as soon as it exists, as a reviewer with a separate key. */
  const decideOnce = Effect.fnUntraced(function* (
    session_id: SessionId,
    decision: "approve" | "reject",
    comment?: string
  ) {
    const reviewer = yield* Effect.flatMap(Countersign, ({ client }) => client({ name: "Ada" }))
    const requested = yield* reviewer.stream(session_id).pipe(
      Stream.filter(({ type }) => type === "approval:requested"),
      Stream.runHead
    )
    assert.isTrue(requested._tag === "Some")
    const { approvals } = yield* reviewer.approvals.list({ query: { session_id } })
    const [approval] = approvals
    if (approval === undefined) throw new Error("an approval waits")
    const params = { id: approval.approval_id }
    yield* reviewer.approvals.decide({
      params,
      payload: { decision, ...(comment === undefined ? {} : { comment }) }
    })
  })

  it.effect("waits for the reviewer and returns allow or reject with who decided and why", () =>
    Effect.gen(function* () {
      for (const [decision, expected] of [
        ["approve", "allow"],
        ["reject", "reject"]
      ] as const) {
        const { client, session_id } = yield* agent
        const person = yield* Effect.forkChild(decideOnce(session_id, decision, "Seen with the customer"))
        const governed = yield* client.govern(session_id, refund)
        yield* Fiber.join(person)
        assert.strictEqual(governed.decision, expected)
        assert.strictEqual(governed.approval?.decided_by?.name, "Ada")
        assert.strictEqual(governed.approval?.comment, "Seen with the customer")
        // Requested again, the step is decided and needs no wait.
        const again = yield* client.govern(session_id, refund)
        assert.strictEqual(again.decision, expected)
        assert.isNull(again.approval)
      }
    })
  )

  it.effect("returns immediately what a rule decides", () =>
    Effect.gen(function* () {
      const { client, session_id } = yield* agent
      yield* client.approvalRules.replace({
        payload: {
          rules: [
            { tool: "search", action_class: "read", effect: "allow" },
            { tool: "shell", action_class: "*", effect: "reject" }
          ]
        }
      })
      const step = { ...refund, tool: "search", action_class: "read" }
      assert.strictEqual((yield* client.govern(session_id, step)).decision, "allow")
      const other = { ...refund, step_id: StepId.make("step 2"), tool: "shell" }
      assert.strictEqual((yield* client.govern(session_id, other)).decision, "reject")
      yield* client.approvalRules.replace({ payload: { rules: [] } })
    })
  )

  it.effect("resumes a step whose earlier call was aborted, even if it was decided in between", () =>
    Effect.gen(function* () {
      const { client, session_id } = yield* agent
      const late = yield* Effect.flip(client.govern(session_id, refund, { timeout: "50 millis" }))
      assert.strictEqual(late._tag, "DECISION_TIMEOUT")
      // Requested again, in case the call was aborted before it sent the request.
      yield* client.sessions.step({ params: { id: session_id }, payload: refund })
      yield* decideOnce(session_id, "approve")
      assert.strictEqual((yield* client.govern(session_id, refund)).decision, "allow")
    })
  )

  it.effect("returns reject if the session is closed during the wait", () =>
    Effect.gen(function* () {
      const { client, session_id } = yield* agent
      const waits = yield* Deferred.make<void>()
      const governed = yield* Effect.forkChild(client.govern(session_id, refund))
      yield* client.stream(session_id).pipe(
        Stream.takeUntil(({ type }) => type === "approval:requested"),
        Stream.runDrain,
        Effect.andThen(Deferred.succeed(waits, undefined))
      )
      yield* Deferred.await(waits)
      yield* client.sessions.close({ params: { id: session_id } })
      const answer = yield* Fiber.join(governed)
      assert.strictEqual(answer.decision, "reject")
      assert.strictEqual(answer.approval?.decision_source, "session_closed")
    })
  )

  it.effect("rejects with the problem or with the signal's reason in the promise client", () =>
    Effect.gen(function* () {
      const { url } = yield* Countersign
      const { key, session_id } = yield* agent
      yield* Effect.promise(async () => {
        await using plain = connect({ url, key: Redacted.value(key) })
        const reason = new Error("enough")
        const given = AbortSignal.abort(reason)
        const ended = await plain
          .govern(session_id, refund, { signal: given })
          .catch((error: unknown) => error)
        assert.strictEqual(ended, reason)
        const missing = SessionId.make("ses_00000000000000000000000000000000")
        const refused = await plain.govern(missing, refund).catch((error: unknown) => error)
        assert.propertyVal(refused, "code", "NOT_FOUND")
      })
    })
  )
})
