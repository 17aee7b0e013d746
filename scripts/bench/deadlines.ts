/**
 * Deadlines of approvals: how long 10,000 that are due in the same second take to be moved, each of a session of its own, without
 * and with an endpoint that is subscribed; and, at low load, how long after its deadline the event of an approval is committed.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { StepId } from "../../src/domain/Ids.ts"
import { Deadlines } from "../../src/server/Deadlines.ts"
import { Countersign } from "../../src/testing/index.ts"
import { line, machine } from "./measure.ts"

const due = 10_000
const rounds = 5
const single = 40

/** Approvals whose window is over, each with its session and step, as the service would have written them. */
const seed = (organization: string, round: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{
      readonly org_id: string
    }>`SELECT org_id FROM organizations WHERE name = ${organization}`
    const org_id = row?.org_id ?? ""
    const key = `key_${"0".repeat(32)}`
    yield* sql`
      INSERT INTO agent_sessions (org_id, session_id, trace_id, metadata, created_at, created_by_id, created_by_name)
      SELECT ${org_id}, 'ses_' || md5(${round}::text || 's' || n), md5(n::text), '{}', now(), ${key}, 'bench'
      FROM generate_series(1, ${due}::int) AS n
    `
    yield* sql`
      INSERT INTO approvals (
        org_id, approval_id, session_id, step_id, tool, action_class, arguments, arguments_digest, status, stage, requested_at,
        requested_by_id, review_deadline_at, expires_at, expiring_seconds, expiring_notified, timeout_action, next_due_at
      )
      SELECT
        ${org_id}, 'apr_' || md5(${round}::text || 'a' || n), 'ses_' || md5(${round}::text || 's' || n), 'step', 'tool', 'write',
        '{"amount":25}', repeat('0', 64), 'pending', 'reviewer', now() - interval '1 minute', ${key},
        now() - n * interval '1 microsecond', now() - n * interval '1 microsecond', 15, true, 'reject',
        now() - n * interval '1 microsecond'
      FROM generate_series(1, ${due}::int) AS n
    `
    yield* sql`ANALYZE approvals`
  })

const program = Effect.gen(function* () {
  const countersign = yield* Countersign
  const { runOnce } = yield* Deadlines

  const quiet = yield* countersign.client({}, "quiet")
  const loud = yield* countersign.client({}, "loud")
  yield* loud.notification_endpoints.create({ payload: { url: "http://127.0.0.1:9/hook" } })

  const times: Record<"quiet" | "loud", Array<number>> = { quiet: [], loud: [] }
  for (let round = 0; round <= rounds; round++) {
    for (const organization of ["quiet", "loud"] as const) {
      yield* seed(organization, round * 2 + (organization === "quiet" ? 0 : 1))
      const begin = performance.now()
      let moved = 0
      // The loop of the service runs beside this and takes its share, as a second replica would.
      const sql = yield* SqlClient.SqlClient
      for (;;) {
        moved += (yield* runOnce).moved
        const [left] = yield* sql<{ readonly count: number }>`
          SELECT count(*)::int AS count FROM approvals WHERE next_due_at <= now()
        `
        if (left?.count === 0) break
      }
      if (round > 0) times[organization].push(performance.now() - begin)
    }
  }

  yield* quiet.approval_rules.replace({
    payload: { rules: [{ effect: "require_approval", review_seconds: 1, expiring_seconds: 0 }] }
  })
  const late: Array<number> = []
  for (let count = 0; count < single; count++) {
    const session = yield* quiet.sessions.create({})
    const step = yield* quiet.sessions.step({
      params: { id: session.session_id },
      payload: { step_id: StepId.make("s"), tool: "t", action_class: "c" }
    })
    const sql = yield* SqlClient.SqlClient
    const waited = yield* Effect.repeat(
      Effect.andThen(
        Effect.sleep("10 millis"),
        sql<{ readonly late: number | null }>`
          SELECT extract(epoch FROM decided_at - expires_at)::float8 * 1000 AS late
          FROM approvals
          WHERE approval_id = ${step.approval_id}
        `
      ),
      { until: (rows) => rows[0]?.late !== null }
    )
    late.push(waited[0]?.late ?? Number.NaN)
  }

  console.log(`\nDeadlines: ${due} approvals due in the same second, ${rounds} rounds; ${machine()}\n`)
  console.log(line("moved, nobody subscribed (goal: 2000)", times.quiet, "ms"))
  console.log(line("moved, one endpoint subscribed (goal: 2000)", times.loud, "ms"))
  console.log(line("deadline to event, low load (goal: 250)", late, "ms"))
})

await Effect.runPromise(Effect.provide(program, Countersign.layer()).pipe(Effect.scoped))
process.exit(0)
