import { assert, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../../../src/api/Authorization.ts"
import { KeyId, StepId } from "../../../../src/domain/Ids.ts"
import { Sessions } from "../../../../src/server/approvals/Sessions.ts"
import { Steps } from "../../../../src/server/approvals/Steps.ts"
import * as Database from "../../../../src/server/store/Database.ts"
import { Runs } from "../../../../src/server/tasks/Runs.ts"
import { Spans } from "../../../../src/server/telemetry/Spans.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { eventually } from "../../../support/eventually.ts"
import { type HeldDatabase, heldDatabase } from "../../../support/heldDatabase.ts"
import { newTelemetryOrg } from "../../../support/otlp/telemetry.ts"
import { cloneDatabase } from "../../../support/postgres.ts"
import { createSortingTask } from "../../../support/tasks.ts"

/** The database behind the service: held back, and reached directly. */
class Behind extends Context.Service<
  Behind,
  { readonly held: HeldDatabase; readonly direct: SqlClient.SqlClient }
>()("test/Behind") {}

/** A service whose database can be held back. */
const heldService = Layer.unwrap(
  Effect.gen(function* () {
    const databaseUrl = yield* cloneDatabase
    const held = yield* heldDatabase(databaseUrl)
    const direct = Context.get(
      yield* Layer.build(Layer.orDie(Database.layer({ url: databaseUrl, maxConnections: 1 }))),
      SqlClient.SqlClient
    )
    return Layer.merge(
      Countersign.layer({
        databaseUrl: held.url,
        environment: { COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: "300" }
      }),
      Layer.succeed(Behind, { held, direct })
    )
  })
)

const organization = Effect.fnUntraced(function* (name: string) {
  const { org_id, peer } = yield* newTelemetryOrg(name)
  const principal = {
    org_id,
    actor: { id: yield* KeyId.generate, name: "agent" },
    scopes: new Set<never>(),
    groups: [],
    keyMakers: [],
    makers: []
  }
  return { org_id, peer, principal }
})

/** Interrupts a request once its row is committed, while the answer of the database is still on its way. */
const disconnectAfterCommit = Effect.fnUntraced(function* <A, E>(
  /** A text that only the statement of the request contains. */
  text: string,
  request: Effect.Effect<A, E>,
  committed: (sql: SqlClient.SqlClient) => Effect.Effect<ReadonlyArray<unknown>, unknown>
) {
  const { direct, held } = yield* Behind
  yield* held.hold(text)
  yield* Effect.gen(function* () {
    const caller = yield* Effect.forkChild(request)
    yield* Effect.orDie(eventually(committed(direct), (rows) => rows.length === 1))
    assert.isUndefined(caller.pollUnsafe(), "the answer of the database is held back")
    yield* Fiber.interrupt(caller)
  }).pipe(Effect.ensuring(held.release))
})

/** Waits until the collector has received so many spans of this name. */
const awaitSpans = (
  peer: { readonly spans: () => ReadonlyArray<{ readonly name: string }> },
  name: string,
  count: number
) =>
  eventually(
    Effect.andThen(
      Effect.flatMap(Spans, (spans) => spans.flush),
      Effect.sync(() => peer.spans().filter((span) => span.name === name).length)
    ),
    (found) => found === count
  )

layer(heldService, { excludeTestServices: true })(
  "Spans › of a caller that disconnects after the commit",
  (it) => {
    it.effect("the step is exported", () =>
      Effect.gen(function* () {
        const { peer, principal } = yield* organization("step")
        const { session_id } = yield* Effect.provideService(
          (yield* Sessions).create({}),
          Authorized("sessions.write"),
          principal
        )
        const steps = yield* Steps
        const check = (name: string) =>
          Effect.provideService(
            steps.check(session_id, { step_id: StepId.make(name), tool: "search", action_class: "read" }),
            Authorized("sessions.write"),
            principal
          )
        yield* check("before")
        yield* disconnectAfterCommit(
          "abandoned",
          check("abandoned"),
          (sql) =>
            sql`SELECT 1 FROM governed_steps WHERE session_id = ${session_id} AND step_id = 'abandoned'`
        )
        yield* awaitSpans(peer, "svc.step search", 2)
      })
    )

    for (const [size, words] of [
      ["small", 1],
      ["large", 20_000]
    ] as const) {
      it.effect(`the ${size} run is exported`, () =>
        Effect.gen(function* () {
          const { peer, principal } = yield* organization(`${size} run`)
          const admin = yield* (yield* Countersign).client({}, `${size} run`)
          const { task } = yield* createSortingTask(admin, ["where is my parcel", "shipping"])
          const runs = yield* Runs
          const run = (text: string) =>
            Effect.provideService(
              runs.run(task.id, { input: { text }, answer: { category: "other" } }, {}),
              Authorized("tasks.run"),
              principal
            )
          yield* run("before")
          yield* disconnectAfterCommit(
            "abandoned",
            run(`abandoned${" word".repeat(words)}`),
            (sql) => sql`SELECT 1 FROM runs WHERE task_id = ${task.id} AND input->>'text' LIKE 'abandoned %'`
          )
          yield* awaitSpans(peer, "svc.run sort messages", 2)
        })
      )
    }
  }
)
