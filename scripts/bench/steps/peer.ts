/**
 * The peer of the `steps` benchmark: Fastify and `pg`, set up as their documentation recommends, on the same schema. It does the work of a
 * governed step, a decision and a logged run, each by one statement and so by one round trip and one commit: bearer key looked up by its
 * digest, body validated by a compiled schema, digest of the arguments, rules and endpoints compiled and kept (the statement compares the
 * rules' revision, since a stale copy must never allow), named prepared statements.
 *
 * With `BENCH_RECEIVER`, the port of a receiver, it also sends the signed event of a step that waits, after the commit, and records the
 * result of each delivery.
 *
 * It leaves out: rate limits, request ids, the events' signal to streams, emails, the queue limit of an endpoint, rules of tasks. It does
 * not coalesce concurrent requests.
 */
import { Ajv2020 } from "ajv/dist/2020.js"
import canonicalize from "canonicalize"
import Fastify from "fastify"
import { createHash, randomBytes } from "node:crypto"
import pg from "pg"
import { v7 } from "uuid"
import { makePost, pathOf } from "../delivery/message.ts"
import * as statements from "./statements.ts"

const pool = new pg.Pool({ connectionString: process.env["DATABASE_URL"], max: 12 })

interface Key {
  readonly org_id: string
  readonly id: string
  readonly name: string
}
interface Rule {
  readonly id: string
  readonly effect: "allow" | "reject" | "require_approval"
  readonly reason: string
  readonly review_seconds: number
  readonly timeout_action: string
  readonly self_approval: boolean
  readonly tool: RegExp
  readonly action_class: RegExp
}
interface StepBody {
  readonly step_id: string
  readonly task_id?: string | null
  readonly tool: string
  readonly action_class: string
  readonly arguments?: unknown
}

/** `BENCH_KEYS`: the SHA-256 digest of each key in base64, with the key's principal. */
const keys = new Map<string, Key>(JSON.parse(process.env["BENCH_KEYS"] ?? "[]"))
const org_id = keys.values().next().value?.org_id ?? ""

const compilePattern = (pattern: string): RegExp =>
  new RegExp(`^${pattern.replaceAll(/[^*\w]/g, String.raw`\$&`).replaceAll("*", ".*")}$`, "su")

const loadRules = async () => {
  const { rows } = await pool.query<{
    revision: string
    rules: ReadonlyArray<Omit<Rule, "tool" | "action_class"> & { tool: string; action_class: string }>
  }>("SELECT revision, rules FROM approval_rules WHERE org_id = $1", [org_id])
  return {
    revision: rows[0]?.revision ?? null,
    rules: (rows[0]?.rules ?? []).map((rule): Rule => ({
      ...rule,
      tool: compilePattern(rule.tool),
      action_class: compilePattern(rule.action_class)
    }))
  }
}
let compiled = await loadRules()

const endpoints = (
  await pool.query<{ endpoint_id: string }>(
    "SELECT endpoint_id FROM notification_endpoints WHERE org_id = $1 AND active ORDER BY endpoint_id",
    [org_id]
  )
).rows.map((row) => row.endpoint_id)
/** Nothing reads this queue: any shards will do. */
const shards = endpoints.map((_, index) => index)

const receiver = process.env["BENCH_RECEIVER"]
const post = receiver === undefined ? undefined : await makePost(Number(receiver))

/** Sends an event to all endpoints, and records each result. A failure ends the process: the receiver accepts everything. */
const deliver = (event_id: string, body: string, deliveries: ReadonlyArray<string>): void => {
  if (post === undefined) return
  for (const [index, delivery_id] of deliveries.entries()) {
    const began = new Date()
    void post({ event_id, path: pathOf(0, 0), body }).then(() =>
      pool.query({
        ...statements.delivered,
        values: [
          shards[index],
          org_id,
          endpoints[index],
          delivery_id,
          began,
          Math.round(Date.now() - began.getTime())
        ]
      })
    )
  }
}

const ajv = new Ajv2020({ strict: false })
const tasks = new Map(
  (
    await pool.query<{
      task_id: string
      input_schema: object
      answer_schema: object
      input_schema_digest: string
      answer_schema_digest: string
    }>(
      "SELECT task_id, input_schema, answer_schema, input_schema_digest, answer_schema_digest FROM tasks WHERE org_id = $1",
      [org_id]
    )
  ).rows.map((task) => [
    task.task_id,
    { ...task, checkInput: ajv.compile(task.input_schema), checkAnswer: ajv.compile(task.answer_schema) }
  ])
)

const newId = (prefix: string): string => `${prefix}_${v7().replaceAll("-", "")}`
const defaultReasons = {
  allow: "A rule allows this step",
  reject: "A rule rejects this step",
  require_approval: "A rule requires approval by a person"
}

const text = { type: "string" } as const
const nullableText = { type: ["string", "null"] } as const
const line = { type: "string", minLength: 1, maxLength: 200 } as const
const anyObject = { type: "object", additionalProperties: true } as const
const actor = { type: ["object", "null"], properties: { id: text, name: text } } as const

const app = Fastify()
app.decorateRequest("key")
app.addHook("onRequest", async (request, reply) => {
  const digest = createHash("sha256")
    .update((request.headers.authorization ?? "").slice(7))
    .digest("base64")
  const key = keys.get(digest)
  if (key === undefined) return reply.code(401).send()
  request.setDecorator("key", key)
})

interface ExistingStep {
  readonly revision: string | null
  readonly last_event: string | null
  readonly tool: string | null
  readonly action_class: string
  readonly arguments_digest: string
  readonly rule_id: string | null
  readonly decision: string
  readonly reason: string
  readonly approval_id: string | null
  readonly last_decision: string
  readonly completed: boolean
  readonly outcome: string | null
  readonly decision_source: string | null
  readonly expires_at: Date | null
}

app.post<{ Params: { session_id: string }; Body: StepBody }>(
  "/v1/agent-sessions/:session_id/steps",
  {
    schema: {
      params: {
        type: "object",
        properties: { session_id: { type: "string", pattern: "^ses_[0-9a-f]{32}$" } }
      },
      body: {
        type: "object",
        required: ["step_id", "tool", "action_class"],
        properties: { step_id: line, task_id: nullableText, tool: line, action_class: line, arguments: {} }
      },
      response: {
        200: {
          type: "object",
          properties: {
            step_id: text,
            decision: text,
            approval_id: nullableText,
            reason: text,
            rule_id: nullableText,
            expires_at: nullableText,
            arguments_digest: text
          }
        }
      }
    }
  },
  async (request, reply) => {
    const key = request.getDecorator<Key>("key")
    const { session_id } = request.params
    const { step_id, tool, action_class } = request.body
    const given = request.body.arguments
    const digest = createHash("sha256")
      .update(
        canonicalize([
          "countersign-step-v1",
          key.org_id,
          session_id,
          step_id,
          tool,
          action_class,
          ...(given === undefined ? [] : [given])
        ]) ?? ""
      )
      .digest("hex")
    for (;;) {
      const { revision, rules } = compiled
      const rule = rules.find((one) => one.tool.test(tool) && one.action_class.test(action_class))
      const effect = rule?.effect ?? "require_approval"
      const now = new Date()
      const at = now.toISOString()
      const pending = effect === "require_approval"
      const answer = {
        step_id,
        decision: pending ? "pending" : effect,
        approval_id: pending ? newId("apr") : null,
        reason: rule === undefined || rule.reason === "" ? defaultReasons[effect] : rule.reason,
        rule_id: rule?.id ?? null,
        expires_at: pending ? new Date(now.getTime() + (rule?.review_seconds ?? 3600) * 1000) : null,
        arguments_digest: digest
      }
      // The members of the event after its number, which the statement adds.
      const governed = JSON.stringify({
        type: "step:governed",
        session_id,
        step_id,
        occurred_at: at,
        tool,
        action_class,
        decision: answer.decision,
        reason: answer.reason,
        rule_id: answer.rule_id,
        approval_id: answer.approval_id,
        arguments_digest: digest
      }).slice(1)
      const values: Array<unknown> = [
        key.org_id,
        session_id,
        step_id,
        request.body.task_id ?? null,
        tool,
        action_class,
        given === undefined ? null : JSON.stringify(given),
        digest,
        answer.rule_id,
        answer.decision,
        answer.reason,
        answer.approval_id,
        key.id,
        now,
        governed,
        revision
      ]
      const event_id = newId("evt")
      const deliveries = endpoints.map(() => newId("ndl"))
      let body = ""
      if (answer.expires_at !== null) {
        const approval = {
          approval_id: answer.approval_id,
          session_id,
          step_id,
          task_id: request.body.task_id ?? null,
          tool,
          action_class,
          arguments_digest: digest,
          status: "pending",
          stage: "reviewer",
          requested_at: at,
          review_deadline_at: answer.expires_at.toISOString(),
          escalation_deadline_at: null,
          expires_at: answer.expires_at.toISOString(),
          escalated_at: null,
          timeout_action: rule?.timeout_action ?? "reject",
          outcome: null,
          decision_source: null,
          decided_at: null,
          decided_by: null,
          comment: null
        }
        values.push(
          JSON.stringify({
            type: "approval:requested",
            session_id,
            step_id,
            occurred_at: at,
            approval
          }).slice(1),
          answer.expires_at,
          new Date(answer.expires_at.getTime() - (rule?.review_seconds ?? 3600) * 250),
          approval.timeout_action,
          rule?.self_approval ?? false,
          event_id,
          Buffer.from(
            (body = JSON.stringify({
              id: event_id,
              type: "approval.requested",
              org_id: key.org_id,
              occurred_at: at,
              approval: {
                approval_id: answer.approval_id,
                session_id,
                step_id,
                task_id: approval.task_id,
                status: "pending",
                stage: "reviewer",
                requested_at: at,
                review_deadline_at: approval.review_deadline_at,
                escalation_deadline_at: null,
                expires_at: approval.expires_at
              }
            }))
          ),
          shards,
          endpoints,
          deliveries
        )
      }
      const statement = pending ? statements.requestApproval : statements.govern
      const { rows } = await pool.query<ExistingStep>({ ...statement, values }).catch((cause: unknown) => {
        // A concurrent request has inserted the step; the next round reads it.
        if (cause instanceof pg.DatabaseError && cause.code === "23505") return { rows: [] }
        throw cause
      })
      const [row] = rows
      if (row === undefined) continue
      if (row.last_event !== null) {
        if (pending) deliver(event_id, body, deliveries)
        return answer
      }
      if (row.tool === null) {
        if (row.revision === revision) return reply.code(409).send()
        compiled = await loadRules()
        continue
      }
      if (
        row.completed ||
        row.tool !== tool ||
        row.action_class !== action_class ||
        row.arguments_digest !== digest
      ) {
        return reply.code(409).send()
      }
      const decision = effect === "reject" ? "reject" : (row.outcome ?? row.decision)
      const current = {
        step_id,
        decision,
        approval_id: row.approval_id,
        reason: decision === "pending" ? row.reason : `Decided: ${row.decision_source}`,
        rule_id: row.rule_id,
        expires_at: decision === "pending" ? row.expires_at : null,
        arguments_digest: row.arguments_digest
      }
      if (decision !== row.last_decision) {
        const { expires_at: _, ...members } = current
        const event = { type: "step:governed", session_id, occurred_at: at, tool, action_class, ...members }
        await pool.query({
          ...statements.resume,
          values: [key.org_id, session_id, step_id, decision, now, JSON.stringify(event).slice(1)]
        })
      }
      return current
    }
  }
)

app.post<{ Params: { id: string }; Body: { decision: "approve" | "reject"; comment?: string | null } }>(
  "/v1/agent-approvals/:id/decide",
  {
    schema: {
      params: { type: "object", properties: { id: { type: "string", pattern: "^apr_[0-9a-f]{32}$" } } },
      body: {
        type: "object",
        required: ["decision"],
        properties: {
          decision: { enum: ["approve", "reject"] },
          comment: { type: ["string", "null"], maxLength: 4_000 }
        }
      },
      response: {
        200: {
          type: "object",
          properties: {
            approval_id: text,
            session_id: text,
            step_id: text,
            task_id: nullableText,
            tool: text,
            action_class: text,
            arguments: {},
            arguments_digest: text,
            status: text,
            stage: text,
            requested_at: text,
            review_deadline_at: text,
            escalation_deadline_at: nullableText,
            expires_at: text,
            escalated_at: nullableText,
            timeout_action: text,
            outcome: nullableText,
            decision_source: nullableText,
            decided_at: nullableText,
            decided_by: actor,
            comment: nullableText
          }
        }
      }
    }
  },
  async (request, reply) => {
    const key = request.getDecorator<Key>("key")
    const approve = request.body.decision === "approve"
    const status = approve ? "approved" : "rejected"
    const { rows } = await pool.query<Record<string, unknown>>({
      ...statements.decide,
      values: [
        key.org_id,
        request.params.id,
        status,
        approve ? "allow" : "reject",
        new Date(),
        key.id,
        key.name,
        request.body.comment ?? null,
        newId("evt"),
        shards,
        endpoints,
        endpoints.map(() => newId("ndl")),
        newId("aud")
      ]
    })
    const [row] = rows
    if (row === undefined) return reply.code(409).send()
    return { ...row, decided_by: { id: key.id, name: key.name } }
  }
)

app.post<{
  Params: { id: string }
  Body: { input: object; answer: object; session_id?: string | null; metadata?: object }
}>(
  "/v1/tasks/:id/run",
  {
    schema: {
      body: {
        type: "object",
        required: ["input", "answer"],
        properties: { input: anyObject, answer: anyObject, session_id: nullableText, metadata: anyObject }
      },
      response: {
        200: {
          type: "object",
          properties: {
            trace_id: text,
            task_id: text,
            release_id: text,
            dataset_id: nullableText,
            answer: anyObject,
            usage: anyObject,
            created_at: text
          }
        }
      }
    }
  },
  async (request, reply) => {
    const key = request.getDecorator<Key>("key")
    const { answer, input, metadata, session_id } = request.body
    const begin = performance.now()
    const task = tasks.get(request.params.id)
    if (task === undefined) return reply.code(404).send()
    if (!task.checkInput(input) || !task.checkAnswer(answer)) return reply.code(422).send()
    const trace_id = randomBytes(16).toString("hex")
    const now = new Date()
    const { rows } = await pool.query<{ release_id: string; dataset_id: string | null }>({
      ...statements.logRun,
      values: [
        key.org_id,
        trace_id,
        newId("run"),
        task.task_id,
        session_id ?? null,
        JSON.stringify(input),
        JSON.stringify(answer),
        JSON.stringify(metadata ?? {}),
        Math.round(performance.now() - begin),
        now,
        key.id,
        key.name,
        task.input_schema_digest,
        task.answer_schema_digest
      ]
    })
    const [row] = rows
    if (row === undefined) return reply.code(409).send()
    return reply.header("x-svc-trace-id", trace_id).send({
      trace_id,
      task_id: task.task_id,
      ...row,
      answer,
      usage: { input_tokens: 0, output_tokens: 0 },
      created_at: now
    })
  }
)

await app.listen({ port: Number(process.env["PORT"]), host: "127.0.0.1" })
console.log("The peer is ready")
