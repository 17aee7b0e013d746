/**
 * Deadlines of approvals. Time to process 10,000 approvals that fall due in the same second, each in its own session: without a webhook
 * endpoint, with one subscribed, and with one whose queue is full; the processor time of the service and of PostgreSQL; and, at low load,
 * the time from a deadline to the commit of its event.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { line, machine, processorSeconds } from "./measure.ts"

const due = 10_000
const rounds = 5
const single = 40

/** Time from writing the approvals to their deadline, so that the writing is not measured. */
const ahead = "4 seconds"

/** Writes approvals with the same deadline, each with its session, as the service would have written them. */
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
        now() + ${ahead}::interval, now() + ${ahead}::interval, 15, true, 'reject',
        now() + ${ahead}::interval
      FROM generate_series(1, ${due}::int) AS n
    `
    yield* sql`ANALYZE approvals`
    const [last] = yield* sql<{ readonly millis: number }>`
      SELECT extract(epoch FROM max(next_due_at) - clock_timestamp())::float8 * 1000 AS millis
      FROM approvals
    `
    yield* Effect.sleep(Math.max(0, last?.millis ?? 0))
  })

/** Processor time of all PostgreSQL processes so far, in seconds. Linux only, else NaN. */
const storeSeconds = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [backend] = yield* sql<{ readonly pid: number }>`SELECT pg_backend_pid() AS pid`
  return yield* Effect.sync(() => {
    try {
      const parent = Number(readFileSync(`/proc/${backend?.pid}/stat`, "utf8").split(") ")[1]?.split(" ")[1])
      const children = readFileSync(`/proc/${parent}/task/${parent}/children`, "utf8").trim().split(" ")
      return [parent, ...children.map(Number)].reduce((sum, pid) => sum + processorSeconds(pid), 0)
    } catch {
      return Number.NaN
    }
  })
})

const program = Effect.gen(function* () {
  const countersign = yield* Countersign
  const sql = yield* SqlClient.SqlClient
  const quiet = yield* countersign.client({}, "quiet")

  const sides = {
    quiet: { wall: new Array<number>(), here: new Array<number>(), store: new Array<number>() },
    subscribed: { wall: new Array<number>(), here: new Array<number>(), store: new Array<number>() },
    full: { wall: new Array<number>(), here: new Array<number>(), store: new Array<number>() }
  }
  const names = ["quiet", "subscribed", "full"] as const
  for (let round = 0; round <= rounds; round++) {
    for (const [index, name] of names.entries()) {
      // A new endpoint per round has an empty queue; the queue of the one that never answers is full from the second round on.
      const organization = name === "subscribed" ? `${name} ${round}` : name
      if (name === "subscribed" || (name === "full" && round === 0)) {
        const client = yield* countersign.client({}, organization)
        yield* client.notificationEndpoints.create({ payload: { url: "http://127.0.0.1:9/hook" } })
      }
      yield* seed(organization, round * names.length + index)
      const before = { wall: performance.now(), here: process.cpuUsage(), store: yield* storeSeconds }
      // The deadline worker of the service does the work.
      yield* Effect.repeat(
        Effect.andThen(
          Effect.sleep("20 millis"),
          sql`SELECT 1 FROM approvals WHERE next_due_at <= now() ORDER BY next_due_at DESC LIMIT 1`
        ),
        { until: (rows) => rows.length === 0 }
      )
      if (round === 0) continue
      const here = process.cpuUsage(before.here)
      sides[name].wall.push(performance.now() - before.wall)
      sides[name].here.push((here.user + here.system) / 1_000)
      sides[name].store.push(((yield* storeSeconds) - before.store) * 1_000)
    }
  }

  yield* quiet.approvalRules.replace({
    payload: { rules: [{ effect: "require_approval", review_seconds: 1, expiring_seconds: 0 }] }
  })
  const late: Array<number> = []
  for (let count = 0; count < single; count++) {
    const session = yield* quiet.sessions.create({})
    const step = yield* quiet.sessions.step({
      params: { id: session.session_id },
      payload: { step_id: StepId.make("s"), tool: "t", action_class: "c" }
    })
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
  for (const [name, what] of [
    ["quiet", "no endpoint"],
    ["subscribed", "one endpoint subscribed"],
    ["full", "one endpoint with a full queue"]
  ] as const) {
    console.log(line(`${what}: all processed`, sides[name].wall, "ms"))
    console.log(line("  processor time, service", sides[name].here, "ms"))
    console.log(line("  processor time, PostgreSQL", sides[name].store, "ms"))
  }
  console.log(line("deadline to event, low load", late, "ms"))
})

await Effect.runPromise(Effect.provide(program, Countersign.layer()).pipe(Effect.scoped))
process.exit()
