import { assert, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { createServer } from "node:http"
import { type SessionId, StepId } from "../../../src/domain/Ids.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { memoryUsedTickets, remoteKeys, verifyTicket } from "../../../src/ticket/index.ts"
import { listenOnFreePort } from "../../support/listenOnFreePort.ts"
import { service } from "../../support/service.ts"

const issuer = "https://countersign.example.com"
const given = { order: "4711", amount_cents: 1299 }

/** A tool on its own server, which executes only what a ticket of this organization permits. */
const startToolServer = Effect.fnUntraced(function* (url: string, orgId: string) {
  const keys = remoteKeys(url)
  const used = memoryUsedTickets()
  const executed: Array<unknown> = []
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const body: unknown = JSON.parse(Buffer.concat(chunks).toString())
      const ticket = request.headers["x-countersign-ticket"]
      const options = { keys, issuer, orgId, tool: "payments.refund", arguments: body, used }
      const answer = async () => {
        const result = await verifyTicket(ticket, options)
        if (result.ok) executed.push(body)
        response.writeHead(result.ok ? 200 : 403).end(result.ok ? "done" : result.reason)
      }
      void answer()
    })
  })
  const port = yield* Effect.acquireRelease(
    Effect.promise(() => listenOnFreePort(server)),
    () => Effect.promise(() => new Promise((resolve) => server.close(resolve)))
  )
  const call = (body: object, ticket?: string) =>
    Effect.promise(async () => {
      const headers = ticket === undefined ? {} : { "x-countersign-ticket": ticket }
      const response = await fetch(`http://127.0.0.1:${port}/`, {
        method: "POST",
        headers,
        body: JSON.stringify(body)
      })
      return response.text()
    })
  return { call, executed }
})

/** The organization of a session. */
const organizationOf = (session_id: SessionId) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.map(
      sql<{ readonly org_id: string }>`SELECT org_id FROM agent_sessions WHERE session_id = ${session_id}`,
      ([row]) => row?.org_id ?? assert.fail("a session")
    )
  )

layer(service({ environment: { COUNTERSIGN_PUBLIC_URL: `${issuer}/` } }), { excludeTestServices: true })(
  "Tickets",
  (it) => {
    it.effect("a tool executes the claimed step once, and nothing for an agent that goes around", () =>
      Effect.gen(function* () {
        const { client, url } = yield* Countersign
        const agent = yield* client({}, "tickets")
        const reviewer = yield* client({}, "tickets")
        const { session_id } = yield* agent.sessions.create({})
        const tool = yield* startToolServer(url, yield* organizationOf(session_id))
        const step = {
          step_id: StepId.make("refund-1"),
          tool: "payments.refund",
          action_class: "write",
          arguments: given,
          claim: true
        }
        const submit = agent.sessions.step({ params: { id: session_id }, payload: step })
        const waiting = yield* submit
        assert.isUndefined(waiting.claim)
        assert.strictEqual(yield* tool.call(given), "missing")
        yield* reviewer.approvals.decide({
          params: { id: waiting.approval_id ?? assert.fail("an approval") },
          payload: { decision: "approve" }
        })
        const claim = (yield* submit).claim ?? assert.fail("a claim")
        assert.strictEqual(
          yield* tool.call({ ...given, amount_cents: 129_900 }, claim.ticket),
          "wrong_arguments"
        )
        assert.strictEqual(yield* tool.call(given, claim.ticket), "done")
        assert.strictEqual(yield* tool.call(given, claim.ticket), "already_used")
        const params = { id: session_id, step_id: step.step_id }
        const renewed = yield* agent.sessions.renewClaim({ params, payload: { claim_id: claim.id } })
        assert.strictEqual(yield* tool.call(given, renewed.claim.ticket), "already_used")
        assert.deepStrictEqual(tool.executed, [given])
      })
    )

    it.effect("a ticket names the claim, what allowed the step, and the end of the lease", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const agent = yield* client({}, "content")
        yield* agent.approvalRules.replace({ payload: { rules: [{ tool: "payments.*", effect: "allow" }] } })
        const { session_id } = yield* agent.sessions.create({})
        const { arguments_digest, claim } = yield* agent.sessions.step({
          params: { id: session_id },
          payload: {
            step_id: StepId.make("1"),
            tool: "payments.refund",
            action_class: "write",
            claim: true,
            lease_seconds: 60
          }
        })
        if (claim === undefined) return assert.fail("a claim")
        const content: unknown = JSON.parse(
          Buffer.from(claim.ticket.split(".")[1] ?? "", "base64url").toString()
        )
        const issued = Math.floor(DateTime.toEpochMillis(claim.claimed_at) / 1_000)
        assert.deepStrictEqual(content, {
          iss: issuer,
          org_id: yield* organizationOf(session_id),
          session_id,
          step_id: "1",
          tool: "payments.refund",
          action_class: "write",
          arguments_digest,
          decision_source: "rule",
          jti: claim.id,
          iat: issued,
          exp: issued + 60
        })
      })
    )
  }
)
