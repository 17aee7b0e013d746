/**
 * The peer of the `ground` benchmark: Fastify and `pg`, set up as their documentation recommends, with the work of
 * `POST /v1/agent-sessions` alone: bearer key looked up in a map of digests, body validated by a compiled schema, the same statement, a
 * response with the same members through a compiled serializer.
 */
import Fastify from "fastify"
import { createHash, randomBytes, randomUUID } from "node:crypto"
import pg from "pg"

const pool = new pg.Pool({ connectionString: process.env["DATABASE_URL"], max: 12 })
const keys = new Map([
  [process.env["BENCH_DIGEST"] ?? "", { org_id: `org_${"0".repeat(32)}`, id: "key", name: "bench" }]
])
const app = Fastify()

const text = { type: "string" } as const
const nullableText = { type: ["string", "null"] } as const

app.post<{ Body: { task_id?: string | null; metadata?: Record<string, unknown> } }>(
  "/v1/agent-sessions",
  {
    schema: {
      body: {
        type: "object",
        properties: { task_id: nullableText, metadata: { type: "object", additionalProperties: true } }
      },
      response: {
        201: {
          type: "object",
          properties: {
            session_id: text,
            task_id: nullableText,
            trace_id: text,
            metadata: { type: "object", additionalProperties: true },
            status: text,
            created_at: text,
            created_by: { type: "object", properties: { id: text, name: text } },
            closed_at: nullableText
          }
        }
      }
    }
  },
  async (request, reply) => {
    const digest = createHash("sha256")
      .update((request.headers.authorization ?? "").slice(7))
      .digest("base64")
    const key = keys.get(digest)
    if (key === undefined) return reply.code(401).send()
    const now = new Date()
    const session = {
      session_id: `ses_${randomUUID().replaceAll("-", "")}`,
      task_id: request.body.task_id ?? null,
      trace_id: randomBytes(16).toString("hex"),
      metadata: request.body.metadata ?? {},
      status: "open",
      created_at: now.toISOString(),
      created_by: { id: key.id, name: key.name },
      closed_at: null
    }
    await pool.query({
      name: "insert-session",
      text: `INSERT INTO agent_sessions
        (org_id, session_id, task_id, trace_id, metadata, created_at, created_by_id, created_by_name)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
      values: [
        key.org_id,
        session.session_id,
        session.task_id,
        session.trace_id,
        JSON.stringify(session.metadata),
        now,
        key.id,
        key.name
      ]
    })
    return reply.code(201).send(session)
  }
)

await app.listen({ port: Number(process.env["PORT"]), host: "127.0.0.1" })
