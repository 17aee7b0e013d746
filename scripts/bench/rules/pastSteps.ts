import { DateTime, Effect, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Countersign } from "../../../src/testing/index.ts"
import type { NewApprovalRule } from "../../../src/api/ApprovalRules.ts"
import { atMost, line } from "../measure.ts"

/** Limit of the growth of the resident memory, in MB, of service and client in one process, whatever the number of steps. */
const LIMIT_MEGABYTES = 200

/** Steps that one statement inserts. */
const SEED_BATCH = 50_000

/** How often the memory is read, in milliseconds. */
const SAMPLE_MILLIS = 20

const megabytes = () => process.memoryUsage.rss() / 2 ** 20

/** Rules that read the arguments of every step. */
const rules: ReadonlyArray<NewApprovalRule> = Array.from({ length: 50 }, (_, index) => ({
  tool: "payments.*",
  when: [
    { pointer: "/currency", op: "equals", value: "EUR" },
    { pointer: "/amount", op: "at_most", value: index },
    { pointer: "/to", op: "matches", value: `^[a-z0-9]+@acme[.]com$` }
  ],
  effect: index % 2 === 0 ? "allow" : "reject"
}))

/** Inserts steps without approvals, with arguments of some hundred bytes. */
const seed = Effect.fnUntraced(function* (session_id: string, from: number, to: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO governed_steps (
      org_id, session_id, step_id, tool, action_class, arguments, arguments_digest, decision, reason, requested_by_id, requested_at
    )
    SELECT
      org_id, session_id, 'step ' || n, 'payments.refund', 'write',
      json_build_object('amount', n % 200, 'currency', 'EUR', 'to', 'person' || n || '@acme.com', 'note', repeat(md5(n::text), 4)),
      '', 'allow', '', 'key', date_trunc('milliseconds', now()) - n * interval '10 milliseconds'
    FROM agent_sessions, generate_series(${from}::int, ${to}::int) AS n
    WHERE session_id = ${session_id}
  `
})

/** A test of the rules on all steps: the steps, the processor time of this process for each, and the growth of its memory. */
const measureTest = Effect.fnUntraced(function* (
  client: Effect.Success<ReturnType<Countersign["Service"]["client"]>>
) {
  const start = megabytes()
  let peak = start
  const sampling = setInterval(() => (peak = Math.max(peak, megabytes())), SAMPLE_MILLIS)
  const before = process.cpuUsage()
  const since = DateTime.subtract(yield* DateTime.now, { days: 30 })
  const lines = yield* client.approvalRules.test({ payload: { rules, since } })
  const steps = yield* Stream.runFold(
    lines,
    () => 0,
    (count, one) => (one.type === "result" ? one.steps : count)
  )
  const { system, user } = process.cpuUsage(before)
  clearInterval(sampling)
  return { steps, micros: (user + system) / steps, megabytes: peak - start }
})

/** Tests rules on a hundred thousand steps, and on a million. */
export const measurePastSteps = Effect.gen(function* () {
  const countersign = yield* Countersign
  const sql = yield* SqlClient.SqlClient
  const client = yield* countersign.client()
  const { session_id } = yield* client.sessions.create({})
  let seeded = 0
  for (const steps of [100_000, 1_000_000]) {
    for (; seeded < steps; seeded += SEED_BATCH) yield* seed(session_id, seeded + 1, seeded + SEED_BATCH)
    yield* sql`ANALYZE governed_steps`
    const test = yield* measureTest(client)
    if (test.steps !== steps) throw new Error(`${test.steps} steps were tested of ${steps}`)
    const what = `${steps.toLocaleString("en")} steps, 50 rules`
    console.log(line(`${what}, processor time a step`, [test.micros], "µs"))
    console.log(atMost(`${what}, growth of memory`, [test.megabytes], LIMIT_MEGABYTES, "MB"))
  }
}).pipe(Effect.provide(Countersign.layer()), Effect.scoped)
