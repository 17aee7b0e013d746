/** What both sides of the `steps` benchmark start from: an organization with rules, keys, sessions, endpoints, a task and some history. */
import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import pg from "pg"
import { Client } from "../../../src/client/Client.ts"
import { stepDigest } from "../../../src/domain/approvals/StepDigest.ts"
import { uuidV7Hex } from "../../../src/domain/Ids.ts"
import type { NewApprovalRule } from "../../../src/api/ApprovalRules.ts"
import { type Service, startService } from "../service.ts"

/** Sessions over which callers spread their steps. */
const SESSIONS = 200

/** Steps with a decided approval that exist before the first measurement. */
const HISTORY = 5_000

/** Tools by the rule that they match. */
export const tools = {
  allowed: "read_file",
  budgeted: "export_file",
  rejected: "drop_table",
  waiting: "send_payment"
} as const
export type Tool = (typeof tools)[keyof typeof tools]

const rules: ReadonlyArray<NewApprovalRule> = [
  ...["deploy_*", "shell_*", "browser_*", "*_secret", "mail_*", "calendar_*", "crm_*", "wiki_*"].map(
    (tool): NewApprovalRule => ({ tool, action_class: "write", effect: "require_approval" })
  ),
  { tool: "drop_*", effect: "reject", reason: "Tables are not dropped by agents" },
  { tool: "read_*", effect: "allow" },
  {
    tool: "export_*",
    effect: "allow",
    budgets: [
      { per: "session", window_seconds: 3_600, count: 1_000_000 },
      { per: "key", window_seconds: 86_400, sum: { pointer: "/amount", at_most: 1e12 } },
      { per: "organization", window_seconds: 86_400, count: 100_000_000, by: ["/currency"] }
    ]
  },
  { tool: "send_*", effect: "require_approval", review_seconds: 24 * 3_600 }
]

/** The organization, as requests name it. */
export interface Seed {
  readonly org_id: string
  /** Requests steps. */
  readonly agent: SeedKey
  /** Decides approvals. */
  readonly reviewer: SeedKey
  readonly sessions: ReadonlyArray<string>
  readonly endpoints: ReadonlyArray<string>
  readonly task_id: string
  /** The rule that makes a step wait. */
  readonly rule_id: string
  /** Environment of a service on the seeded database. */
  readonly environment: Readonly<Record<string, string>>
}

export interface SeedKey {
  readonly id: string
  readonly name: string
  readonly secret: string
}

export const run = {
  input: { text: "Invoice 4711, total 129.90 EUR" },
  answer: { number: "4711", total: 129.9, currency: "EUR" }
}

const text = { type: "string" }
const task = {
  name: "Read invoices",
  instructions: "Read the invoice. Give the total as a number.",
  input_schema: { type: "object", properties: { text }, required: ["text"], additionalProperties: false },
  answer_schema: {
    type: "object",
    properties: { number: text, total: { type: "number" }, currency: text },
    required: ["number", "total", "currency"],
    additionalProperties: false
  }
}

const seedByApi = (service: Service, urls: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const client = yield* Client
    const agent = yield* client.apiKeys.create({ payload: { name: "agent", preset: "admin" } })
    const reviewer = yield* client.apiKeys.create({ payload: { name: "reviewer", preset: "reviewer" } })
    const replaced = yield* client.approvalRules.replace({ payload: { rules } })
    const endpoints = yield* Effect.forEach(urls, (url) =>
      client.notificationEndpoints.create({ payload: { url } })
    )
    const sessions = yield* Effect.replicateEffect(
      client.sessions.create({ payload: { metadata: { agent: "bench" } } }),
      SESSIONS,
      { concurrency: 8 }
    )
    const { id: task_id } = yield* client.tasks.create({ payload: task })
    // The first run of a task locks its schemas.
    yield* client.tasks.run({ params: { id: task_id }, payload: run })
    return {
      agent: { id: agent.key.id, name: agent.key.name, secret: agent.secret },
      reviewer: { id: reviewer.key.id, name: reviewer.key.name, secret: reviewer.secret },
      sessions: sessions.map(({ session_id }) => session_id),
      endpoints: endpoints.map(({ endpoint }) => endpoint.id),
      task_id,
      rule_id: replaced.rules.at(-1)?.id ?? ""
    }
  }).pipe(
    Effect.provide(
      Client.layer({ url: `http://127.0.0.1:${service.port}`, key: Redacted.make(service.key) })
    ),
    Effect.runPromise
  )

/** Webhook endpoints to register. */
export interface SeedEndpoints {
  readonly urls: ReadonlyArray<string>
  /** Whether they are in cooldown for a day, as after failures: deliveries are queued and nothing is sent. */
  readonly inCooldown: boolean
}

/** Seeds an empty database through a service of its own, which is stopped then. */
export const seed = async (
  url: Redacted.Redacted,
  main: string | undefined,
  endpoints: SeedEndpoints
): Promise<Seed> => {
  const masterKey = { COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64") }
  const environment = {
    ...masterKey,
    NODE_ENV: "test",
    COUNTERSIGN_EGRESS_ALLOW: "127.0.0.1/32",
    COUNTERSIGN_EGRESS_HTTP: "true"
  }
  const service = await startService(url, environment, main)
  const created = await seedByApi(service, endpoints.urls)
  service.child.kill("SIGTERM")
  await service.ended
  const sql = new pg.Pool({ connectionString: Redacted.value(url), max: 1 })
  const { rows } = await sql.query<{ org_id: string }>("SELECT org_id FROM organizations")
  const seeded = { ...created, org_id: rows[0]?.org_id ?? "", environment }
  if (endpoints.inCooldown) {
    await sql.query(
      `INSERT INTO delivery_destinations (org_id, destination_id, consecutive_failures, cooldown_round, cooldown_until)
       SELECT org_id, endpoint_id, 5, 1, now() + interval '1 day' FROM notification_endpoints`
    )
  }
  await insertSteps(sql, seeded, HISTORY, "answered")
  await sql.query("VACUUM ANALYZE")
  await sql.end()
  return seeded
}

/** A step that waits for a person or was decided, as the benchmark inserts it. */
export interface InsertedStep {
  readonly session_id: string
  readonly approval_id: string
  /** The request that repeats it. */
  readonly body: string
}

/** The request of a step, of the size that a tool call usually has. */
export const stepBody = (step_id: string, tool: Tool, claim = false): string =>
  JSON.stringify({ ...stepOf(step_id, tool), ...(claim ? { claim } : {}) })

const stepOf = (step_id: string, tool: Tool) => ({
  step_id,
  tool,
  action_class: "write",
  arguments: {
    path: "/srv/reports/2026/november.csv",
    amount: 129.9,
    currency: "EUR",
    note: "Third quarter, customer 4711",
    tags: ["finance", "monthly"],
    options: { dryRun: false, limit: 100 }
  }
})

/**
 * Inserts steps that wait for a person (`pending`), were approved since their last answer (`approved`), or were approved and answered so
 * (`answered`), with their approvals, over all sessions. Their first session events are left out.
 */
export const insertSteps = async (
  sql: pg.Pool,
  { agent, org_id, reviewer, rule_id, sessions }: Seed,
  count: number,
  state: "pending" | "approved" | "answered"
): Promise<ReadonlyArray<InsertedStep>> => {
  const steps = Array.from({ length: count }, (_, index) => {
    const step = stepOf(`prepared ${uuidV7Hex()}`, tools.waiting)
    const session_id = sessions[index % sessions.length] ?? ""
    return {
      session_id,
      step,
      approval_id: `apr_${uuidV7Hex()}`,
      digest: stepDigest({ org_id, session_id, ...step }),
      body: JSON.stringify(step)
    }
  })
  const decided = state !== "pending"
  await sql.query(
    `WITH given AS MATERIALIZED (
      SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
        AS g (session_id, step_id, approval_id, digest, arguments)
    ), steps AS (
      INSERT INTO governed_steps (
        org_id, session_id, step_id, tool, action_class, arguments, arguments_digest, rule_id, decision, reason, approval_id,
        requested_by_id, requested_at, last_decision
      )
      SELECT
        $1, session_id, step_id, $7, 'write', arguments::json, digest, $8, 'pending', 'A rule requires approval by a person',
        approval_id, $9, now(), $10
      FROM given
    )
    INSERT INTO approvals (
      org_id, approval_id, session_id, step_id, tool, action_class, arguments, arguments_digest, status, stage, requested_at,
      requested_by_id, review_deadline_at, expires_at, timeout_action, next_due_at, arguments_bytes, outcome, decision_source,
      decided_at, decided_by_id, decided_by_name
    )
    SELECT
      $1, approval_id, session_id, step_id, $7, 'write', arguments::json, digest,
      CASE WHEN $11 THEN 'approved' ELSE 'pending' END, 'reviewer', now(), $9, now() + interval '1 day', now() + interval '1 day', 'reject',
      CASE WHEN $11 THEN NULL ELSE now() + interval '18 hours' END, octet_length(arguments),
      CASE WHEN $11 THEN 'allow' END, CASE WHEN $11 THEN 'human' END, CASE WHEN $11 THEN now() END,
      CASE WHEN $11 THEN $12::text END, CASE WHEN $11 THEN $13::text END
    FROM given`,
    [
      org_id,
      steps.map(({ session_id }) => session_id),
      steps.map(({ step }) => step.step_id),
      steps.map(({ approval_id }) => approval_id),
      steps.map(({ digest }) => digest),
      steps.map(({ step }) => JSON.stringify(step.arguments)),
      tools.waiting,
      rule_id,
      agent.id,
      state === "answered" ? "allow" : null,
      decided,
      reviewer.id,
      reviewer.name
    ]
  )
  return steps
}

/** Approves pending approvals by the reviewer, without their session events. */
export const approve = async (sql: pg.Pool, { org_id, reviewer }: Seed, ids: ReadonlyArray<string>) => {
  await sql.query(
    `UPDATE approvals
    SET
      status = 'approved', outcome = 'allow', decision_source = 'human', decided_at = now(), decided_by_id = $3,
      decided_by_name = $4, next_due_at = NULL
    WHERE org_id = $1
      AND approval_id = ANY ($2)`,
    [org_id, ids, reviewer.id, reviewer.name]
  )
}
