import { assert, describe, it, layer } from "@effect/vitest"
import { Cause, DateTime, Effect, Exit, Fiber, Layer, Queue, Result, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { expectTypeOf } from "vitest"
import { noUsage } from "../../src/domain/tasks/Provider.ts"
import { StepId } from "../../src/domain/Ids.ts"
import {
  Egress,
  EgressFailed,
  type EgressRequest,
  type EgressResponse,
  type Mail,
  MailTransport,
  ProviderEgress,
  Providers,
  Server,
  Settings,
  Steps,
  StoreClock
} from "../../src/server/index.ts"
import { Countersign } from "../../src/testing/index.ts"
import { cloneDatabase } from "../support/postgres.ts"
import { service } from "../support/service.ts"
import { sortingTask } from "../support/tasks.ts"
import type { UnsentResponses } from "../../src/server/admission/UnsentResponses.ts"
import type { VerifiedCredentials } from "../../src/server/admission/VerifiedCredentials.ts"
import type { layerListen } from "../../src/server/http/listen.ts"
import type { Stopping } from "../../src/server/http/Stopping.ts"

/** A response without a body. */
const respond = (status: number): EgressResponse => ({
  status,
  retryAfter: undefined,
  body: new Uint8Array(),
  complete: true
})

const refund = { step_id: StepId.make("refund-1"), tool: "payments.refund", action_class: "write" }

/** Requests an approval with a new session; returns its id. */
const requestApproval = Effect.gen(function* () {
  const { sessions } = yield* (yield* Countersign).client()
  const { session_id } = yield* sessions.create()
  const { approval_id } = yield* sessions.step({ params: { id: session_id }, payload: refund })
  return approval_id ?? assert.fail("the step needs an approval")
})

/** Creates an endpoint that exists nowhere. */
const createEndpoint = Effect.gen(function* () {
  const { notificationEndpoints } = yield* (yield* Countersign).client()
  const { endpoint } = yield* notificationEndpoints.create({
    payload: { url: "https://hooks.acme.com/countersign" }
  })
  return endpoint
})

/** Runs a test with a service of its own. */
const withService = <Replaced extends Server.Edge, A, E>(
  replace: Layer.Layer<Replaced>,
  use: Effect.Effect<A, E, Countersign>
) => Effect.provide(use, Layer.fresh(service({ replace })))

describe("Countersign.layer › replacements", () => {
  it.live("webhooks go through a replaced egress", () =>
    Effect.gen(function* () {
      const sent = yield* Queue.unbounded<EgressRequest>()
      const fake = Egress.layerTest((request) => Effect.as(Queue.offer(sent, request), respond(204)))
      yield* withService(
        fake,
        Effect.gen(function* () {
          const endpoint = yield* createEndpoint
          yield* requestApproval
          const request = yield* Queue.take(sent)
          assert.strictEqual(request.url, "https://hooks.acme.com/countersign")
          assert.strictEqual(request.pool, endpoint.id)
        })
      )
    })
  )

  it.live("an egress that is provided to the layer, not named in its options, is used too", () =>
    Effect.gen(function* () {
      const sent = yield* Queue.unbounded<EgressRequest>()
      const fake = Egress.layerTest((request) => Effect.as(Queue.offer(sent, request), respond(204)))
      const databaseUrl = yield* cloneDatabase
      yield* Effect.gen(function* () {
        yield* createEndpoint
        yield* requestApproval
        assert.strictEqual((yield* Queue.take(sent)).url, "https://hooks.acme.com/countersign")
      }).pipe(Effect.provide(Countersign.layer({ databaseUrl }).pipe(Layer.provide(fake))))
    })
  )

  it.live("the real providers call their models through a replaced provider egress", () =>
    Effect.gen(function* () {
      const sent = yield* Queue.unbounded<EgressRequest>()
      const fake = ProviderEgress.layerTest((request) =>
        Effect.andThen(Queue.offer(sent, request), Effect.fail(new EgressFailed({ reason: "TimedOut" })))
      )
      yield* withService(
        fake,
        Effect.gen(function* () {
          const { tasks } = yield* (yield* Countersign).client()
          const provider = { kind: "openai" as const, base_url: "https://models.acme.com/v1", model: "m" }
          const task = yield* tasks.create({ payload: { ...sortingTask, provider } })
          const problem = yield* Effect.flip(
            tasks.run({ params: { id: task.id }, payload: { input: { text: "hello" } } })
          )
          assert.strictEqual(problem._tag, "PROVIDER_FAILED")
          assert.strictEqual((yield* Queue.take(sent)).url, "https://models.acme.com/v1/chat/completions")
        })
      )
    })
  )

  it.live("runs are answered by replaced providers", () =>
    withService(
      Layer.succeed(Providers, {
        answer: () =>
          Effect.succeed({ answer: { category: "billing" }, usage: noUsage, calls: [], examples: [] })
      }),
      Effect.gen(function* () {
        const { tasks } = yield* (yield* Countersign).client()
        const task = yield* tasks.create({ payload: sortingTask })
        const { answer } = yield* tasks.run({
          params: { id: task.id },
          payload: { input: { text: "hello" } }
        })
        assert.deepStrictEqual(answer, { category: "billing" })
      })
    )
  )

  it.live("email goes to a replaced mail transport, without a mail server in the settings", () =>
    Effect.gen(function* () {
      const sent = yield* Queue.unbounded<Mail>()
      const fake = Layer.succeed(MailTransport, {
        server: "fake",
        send: (mail) => Effect.as(Queue.offer(sent, mail), { _tag: "Delivered" as const, status: 250 })
      })
      yield* withService(
        fake,
        Effect.gen(function* () {
          yield* (yield* Countersign).key({ preset: "reviewer", email: "ada@example.org" })
          const approval_id = yield* requestApproval
          const mail = yield* Queue.take(sent)
          assert.strictEqual(mail.to, "ada@example.org")
          assert.include(mail.text, approval_id)
        })
      )
    })
  )

  it.live("without a TestClock the service's time is the database's, in statements too", () =>
    Effect.gen(function* () {
      const { now, simulated } = yield* StoreClock
      assert.isUndefined(simulated)
      const before = Date.now()
      const read = DateTime.toEpochMillis(yield* now)
      // The database of another machine may have another clock.
      assert.isAtLeast(read, before - 5_000)
      assert.isAtMost(read, Date.now() + 5_000)
    }).pipe(Effect.provide(Layer.fresh(service())))
  )

  it("a replacement that the service would not use does not compile", () => {
    const steps = Layer.effect(Steps, Effect.never)
    // @ts-expect-error -- Steps is no service of the edge
    Countersign.layer({ replace: steps })
    // @ts-expect-error -- one of the two is no service of the edge
    Countersign.layer({ replace: Layer.merge(steps, Layer.effect(StoreClock, Effect.never)) })
    // @ts-expect-error -- the database is chosen by `databaseUrl`
    Countersign.layer({ replace: Layer.effect(SqlClient.SqlClient, Effect.never) })
  })

  it("a setting with a misspelt name does not compile", () => {
    Countersign.layer({ environment: { COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0,1" } })
    // @ts-expect-error -- it is COUNTERSIGN_NOTIFY_RETRY_SECONDS
    Countersign.layer({ environment: { COUNTERSIGN_NOTIFY_RETRY_SECOND: "0,1" } })
  })

  it("the services require every service of the edge, so that a program without one does not compile", () => {
    const { settings } = Result.getOrThrow(Settings.decode({}, { cwd: "/", uid: undefined }))
    const services = Server.layerServices(settings).pipe(Layer.provide(Server.layerStore(settings.store)))
    expectTypeOf<Layer.Services<typeof services>>().toEqualTypeOf<Server.Edge>()
    const withEgress = services.pipe(Layer.provide(Egress.layerTest(() => Effect.succeed(respond(204)))))
    expectTypeOf<Layer.Services<typeof withEgress>>().toEqualTypeOf<Exclude<Server.Edge, Egress>>()
    const complete = Server.layerServices(settings).pipe(
      Layer.provide(Server.layerEdge(settings)),
      Layer.provide(Server.layerStore(settings.store))
    )
    expectTypeOf<Layer.Services<typeof complete>>().toEqualTypeOf<never>()
  })

  it("a listening server requires the limits of unread responses, and the state that it shares with the routes", () => {
    expectTypeOf<Layer.Services<ReturnType<typeof layerListen>>>().toEqualTypeOf<
      Stopping | UnsentResponses | VerifiedCredentials
    >()
  })
})

/** The requests of one test's endpoint; every request fails. */
const failedRequests = Effect.runSync(Queue.unbounded<EgressRequest>())

layer(
  service({
    replace: Egress.layerTest((request) => Effect.as(Queue.offer(failedRequests, request), respond(500)))
  }),
  { timeout: "60 seconds" }
)("Countersign.layer › under a TestClock", (it) => {
  it.effect("an approval expires when the clock passes its deadline, and its agent is answered", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 0, 1))
      const agent = yield* (yield* Countersign).client({ preset: "runtime" })
      const { session_id } = yield* agent.sessions.create()
      const decided = yield* Effect.forkChild(agent.govern(session_id, refund))
      const requested = yield* agent.stream(session_id).pipe(
        Stream.filter((event) => event.type === "approval:requested"),
        Stream.runHead
      )
      assert.strictEqual(requested._tag, "Some")
      yield* TestClock.adjust("59 minutes")
      const { approvals } = yield* agent.approvals.list({ query: { session_id } })
      assert.deepStrictEqual(
        approvals.map(({ expires_at, status }) => [DateTime.formatIso(expires_at), status]),
        [["2026-01-01T01:00:00.000Z", "pending"]]
      )
      yield* TestClock.adjust("1 minute")
      const { approval, decision } = yield* Fiber.join(decided)
      assert.deepStrictEqual([decision, approval?.decision_source], ["reject", "timeout"])
      assert.strictEqual(
        approval?.decided_at && DateTime.formatIso(approval.decided_at),
        "2026-01-01T01:00:00.000Z"
      )
    })
  )

  it.effect("each retry of a delivery is made when the clock reaches it, not before", () =>
    Effect.gen(function* () {
      const { id } = yield* createEndpoint
      const { notificationEndpoints } = yield* (yield* Countersign).client()
      yield* requestApproval
      const attemptsAre = (count: number) =>
        notificationEndpoints.listDeliveries({ params: { id } }).pipe(
          Effect.map(({ deliveries }) => deliveries[0]?.attempts),
          Effect.repeat({ until: (attempts) => attempts === count })
        )
      // The schedule is 0 s, 5 s, 30 s, 2 min with 20 % jitter; a retry is counted from the recorded result of the attempt before.
      for (const [made, pause] of [
        [1, "6 seconds"],
        [2, "36 seconds"],
        [3, "144 seconds"]
      ] as const) {
        yield* Queue.take(failedRequests)
        yield* attemptsAre(made)
        assert.strictEqual(yield* Queue.size(failedRequests), 0)
        yield* TestClock.adjust(pause)
      }
      assert.strictEqual((yield* Queue.take(failedRequests)).pool, id)
    })
  )

  it.effect("a key that expires is refused once the clock passes its end", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const expires_at = DateTime.addDuration(yield* DateTime.now, "1 hour")
      const client = yield* countersign.client({ expires_at })
      yield* client.sessions.create()
      yield* TestClock.adjust("1 hour")
      const exit = yield* Effect.exit(client.sessions.create())
      assert.isTrue(Exit.isFailure(exit) && Cause.pretty(exit.cause).includes("INVALID_API_KEY"))
    })
  )
})
