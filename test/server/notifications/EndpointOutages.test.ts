import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { ClientCalls } from "../../../src/client/Client.ts"
import { type EndpointId, StepId } from "../../../src/domain/Ids.ts"
import * as EndpointOutages from "../../../src/server/notifications/EndpointOutages.ts"
import { generateMasterKey } from "../../../src/server/secrets/SecretBox.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { eventually } from "../../support/eventually.ts"
import { mailServer } from "../../support/mail.ts"
import { cloneDatabase, serviceDatabase } from "../../support/postgres.ts"
import { type ScriptedReply, startScriptedServer } from "../../support/scripted.ts"

const ask = Effect.fnUntraced(function* (client: ClientCalls) {
  const { session_id } = yield* client.sessions.create({})
  yield* client.sessions.step({
    params: { id: session_id },
    payload: { step_id: StepId.make("1"), tool: "payments.refund", action_class: "write" }
  })
}, Effect.orDie)

/** An endpoint of two replicas that send mail to an admin and a reviewer, after one event. */
const withEndpoint = <A, E>(
  answers: ReadonlyArray<ScriptedReply>,
  use: (fixture: {
    readonly admin: ClientCalls
    readonly mail: Effect.Success<ReturnType<typeof mailServer>>
    readonly id: EndpointId
    /** Runs the worker of both replicas at once, twice. Returns the number of notices. */
    readonly report: Effect.Effect<number>
  }) => Effect.Effect<A, E, SqlClient.SqlClient>
) =>
  Effect.gen(function* () {
    const mail = yield* mailServer()
    const receiver = yield* startScriptedServer(answers)
    const { databaseUrl, environment } = serviceDatabase(yield* cloneDatabase)
    const replica = Countersign.layer({
      databaseUrl,
      environment: {
        ...environment,
        COUNTERSIGN_MASTER_KEY: Redacted.value(yield* generateMasterKey),
        COUNTERSIGN_SMTP_URL: `smtp://127.0.0.1:${mail.port}`,
        COUNTERSIGN_MAIL_FROM: "no-reply@countersign.example",
        COUNTERSIGN_PUBLIC_URL: "https://approvals.example.org",
        COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0,3600",
        COUNTERSIGN_NOTIFY_COOLDOWN_AFTER: "1"
      }
    })
    const first = yield* Layer.build(Layer.fresh(replica))
    const second = yield* Layer.build(Layer.fresh(replica))
    const runs = [first, second, first, second].map((context) =>
      Effect.orDie(Effect.provideContext(EndpointOutages.runOnce, context))
    )
    return yield* Effect.gen(function* () {
      const countersign = yield* Countersign
      const admin = yield* countersign.client()
      yield* countersign.key({ name: "Ada", email: "ada@example.org", preset: "reviewer" })
      yield* countersign.key({ name: "Root", email: "root@example.org", preset: "admin" })
      const { endpoint } = yield* admin.notificationEndpoints.create({ payload: { url: receiver.url } })
      yield* ask(admin)
      const report = Effect.map(Effect.all(runs, { concurrency: "unbounded" }), (list) =>
        list.reduce((sum, { notices }) => sum + notices, 0)
      )
      return yield* use({ admin, mail, id: endpoint.id, report })
    }).pipe(Effect.provideContext(first))
  }).pipe(Effect.scoped)

const outage = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<{ readonly failing: boolean; readonly reported: boolean }>`
    SELECT failing_since IS NOT NULL AS failing, outage_reported_at IS NOT NULL AS reported
    FROM delivery_destinations
    WHERE destination_id LIKE 'nep%'
  `
)

const passHour = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`UPDATE delivery_destinations SET failing_since = failing_since - interval '1 hour'`
)

const subjectsOf = ({ received }: Effect.Success<ReturnType<typeof mailServer>>) =>
  received
    .map(({ headers, to }) => [headers.get("subject"), ...to])
    .filter(([subject]) => !String(subject).startsWith("Approval"))

describe("EndpointOutages", () => {
  it.live("an endpoint that has failed for an hour is reported once to the admins and in the audit log", () =>
    withEndpoint([{ status: 503 }, { status: 204 }, { status: 503 }], ({ admin, id, mail, report }) =>
      Effect.gen(function* () {
        yield* eventually(outage, ([found]) => found?.failing === true)
        assert.strictEqual(yield* report, 0)
        yield* passHour
        assert.strictEqual(yield* report, 1)
        assert.strictEqual(yield* report, 0)
        yield* eventually(
          Effect.sync(() => subjectsOf(mail)),
          (found) => found.length > 0
        )
        assert.deepStrictEqual(subjectsOf(mail), [["Webhooks do not arrive: test", "root@example.org"]])
        const sent = mail.received.find(({ headers }) => headers.get("subject")?.startsWith("Webhooks"))
        assert.include(sent?.text, "No delivery to this webhook endpoint has succeeded for an hour.")
        assert.include(sent?.text, `https://approvals.example.org/console/endpoints/${id}`)
        assert.match(sent?.text ?? "", /Failing since +20\d\d-\d\d-\d\d \d\d:\d\d UTC/)
        const { entries } = yield* admin.auditLog.list({ query: { action: "endpoint.failing" } })
        assert.deepStrictEqual(
          entries.map(({ actor, target_id }) => ({ actor, target_id })),
          [{ actor: null, target_id: id }]
        )

        // A success ends the outage; the next one is another.
        yield* admin.notificationEndpoints.test({ params: { id } })
        yield* eventually(outage, ([found]) => found?.failing === false)
        assert.deepStrictEqual(yield* outage, [{ failing: false, reported: false }])
        yield* ask(admin)
        yield* eventually(outage, ([found]) => found?.failing === true)
        yield* passHour
        assert.strictEqual(yield* report, 1)
      })
    )
  )

  it.live("an endpoint that was enabled again before its 410 was reported is not reported", () =>
    withEndpoint([{ status: 410 }], ({ admin, id, report }) =>
      Effect.gen(function* () {
        yield* eventually(admin.notificationEndpoints.list(), ({ endpoints }) => !endpoints[0]?.active)
        yield* admin.notificationEndpoints.update({ params: { id }, payload: { active: true } })
        assert.strictEqual(yield* report, 0)
      })
    )
  )

  it.live("an endpoint that answers 410 is reported once to the admins", () =>
    withEndpoint([{ status: 410 }], ({ admin, id, mail, report }) =>
      Effect.gen(function* () {
        yield* eventually(admin.notificationEndpoints.list(), ({ endpoints }) => !endpoints[0]?.active)
        yield* passHour
        assert.strictEqual(yield* report, 1)
        assert.strictEqual(yield* report, 0)
        yield* eventually(
          Effect.sync(() => subjectsOf(mail)),
          (found) => found.length > 0
        )
        assert.deepStrictEqual(subjectsOf(mail), [
          ["A webhook endpoint was disabled: test", "root@example.org"]
        ])
        const sent = mail.received.find(({ headers }) => headers.get("subject")?.includes("disabled"))
        assert.include(sent?.text, "410 Gone")
        assert.include(sent?.text, `/console/endpoints/${id}`)
      })
    )
  )
})
