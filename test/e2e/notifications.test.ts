import { assert, describe, it } from "@effect/vitest"
import { Effect, Queue, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { createServer } from "node:http"
import { Webhook } from "standardwebhooks"
import { connect } from "../../src/client/index.ts"
import { StepId } from "../../src/domain/Ids.ts"
import { verify } from "../../src/webhook/index.ts"
import { cloneDatabase } from "../support/postgres.ts"
import { spawnCli } from "../support/process.ts"

/** A received delivery. */
interface ReceivedDelivery {
  readonly headers: Record<string, string>
  readonly body: string
}

/** A receiver on loopback that responds 204 and records deliveries in order. */
const receiver = Effect.gen(function* () {
  const received = yield* Queue.unbounded<ReceivedDelivery>()
  const server = yield* Effect.acquireRelease(
    Effect.promise(
      () =>
        new Promise<ReturnType<typeof createServer>>((resolve) => {
          const made = createServer((request, response) => {
            const chunks: Array<Buffer> = []
            request.on("data", (chunk: Buffer) => chunks.push(chunk))
            request.on("end", () => {
              const headers = Object.fromEntries(
                Object.entries(request.headers).map(([name, value]) => [name, String(value)])
              )
              Queue.offerUnsafe(received, { headers, body: Buffer.concat(chunks).toString() })
              response.writeHead(204).end()
            })
          })
          made.listen(0, "127.0.0.1", () => resolve(made))
        })
    ),
    (made) =>
      Effect.sync(() => {
        made.close()
        made.closeAllConnections()
      })
  )
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return { received, url: `http://127.0.0.1:${port}/hook` }
})

/** Starts the service on a database; returns its address and, if it created one, its first key. */
const serve = Effect.fnUntraced(function* (variables: Record<string, string>) {
  const service = yield* spawnCli(["serve"], variables)
  const out = yield* service.waitForStdout(/requests +.+\n(?:\n {2}First admin key.*\n\n {4}csk_\w+\n)?/)
  const url = /address +(http:\S+)/.exec(out)?.[1] ?? assert.fail(out)
  return { service, url, key: /csk_\w+/.exec(out)?.[0] ?? "" }
})

const environment = Effect.map(cloneDatabase, (url) => ({
  PORT: "0",
  DATABASE_URL: Redacted.value(url),
  COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64"),
  COUNTERSIGN_EGRESS_ALLOW: "127.0.0.1/32",
  COUNTERSIGN_EGRESS_HTTP: "true"
}))

/** A pending step that an agent requested, and the reviewer who may decide it. */
const createPendingStep = async (url: string, adminKey: string) => {
  const admin = connect({ url, key: adminKey })
  const reviewerKey = await admin.apiKeys.create({ payload: { name: "Ada", preset: "reviewer" } })
  const reviewer = connect({ url, key: reviewerKey.secret })
  const agentKey = await admin.apiKeys.create({ payload: { name: "agent", preset: "runtime" } })
  await using agent = connect({ url, key: agentKey.secret })
  const session = await agent.sessions.create()
  const step = await agent.sessions.step({
    params: { id: session.session_id },
    payload: { step_id: StepId.make("refund 1"), tool: "payments.refund", action_class: "write" }
  })
  const { approval_id } = step
  if (approval_id === null) throw new Error("the step waits for a person")
  const decide = () =>
    reviewer.approvals.decide({ params: { id: approval_id }, payload: { decision: "approve" } })
  return { admin, decide, reviewer, approval_id }
}

const timeout = 120_000

describe("an approval's webhook at a real receiver", () => {
  it.live(
    "is verified by countersign/webhook and by the published Standard Webhooks library",
    () =>
      Effect.gen(function* () {
        const { received, url: hook } = yield* receiver
        const { key, url } = yield* serve(yield* environment)
        const { admin, decide, reviewer, approval_id, secret } = yield* Effect.promise(async () => {
          const client = connect({ url, key })
          const { secret } = await client.notificationEndpoints.create({ payload: { url: hook } })
          await client.close()
          return { ...(await createPendingStep(url, key)), secret }
        })
        const requested = yield* Queue.take(received)
        // Decided only then: deliveries to one endpoint are sent concurrently.
        yield* Effect.promise(decide)
        const approved = yield* Queue.take(received)
        const types: Array<string> = []
        for (const { body, headers } of [requested, approved]) {
          const ours = yield* Effect.promise(() => verify(body, headers, secret))
          if (!ours.ok) return assert.fail(ours.message)
          if (ours.event.type === "test" || ours.event.type === "verification")
            return assert.fail("only approval events were asked for")
          assert.strictEqual(ours.event.approval.approval_id, approval_id)
          assert.strictEqual(headers["x-svc-event-id"], ours.event.id)
          assert.strictEqual(headers["x-svc-event-type"], ours.event.type)
          assert.strictEqual(headers["content-type"], "application/json")
          assert.match(headers["user-agent"] ?? "", /^Countersign\//)
          assert.notProperty(headers, "traceparent")
          types.push(ours.event.type)
          assert.deepInclude(new Webhook(secret).verify(body, headers), { id: ours.event.id })
          const forged = yield* Effect.promise(() => verify(`${body} `, headers, secret))
          assert.isFalse(forged.ok)
        }
        assert.deepStrictEqual(types, ["approval.requested", "approval.approved"])
        yield* Effect.promise(() => Promise.all([admin.close(), reviewer.close()]))
      }),
    timeout
  )

  it.live(
    "arrives with the same event id if the process is killed between the commit and the sending",
    () =>
      Effect.gen(function* () {
        const { received, url: hook } = yield* receiver
        // The first attempt comes eight seconds after the event, so the kill is before it on a slow machine, too.
        const variables = { ...(yield* environment), COUNTERSIGN_NOTIFY_RETRY_SECONDS: "8,1,1" }
        const first = yield* serve(variables)
        yield* Effect.promise(async () => {
          const client = connect({ url: first.url, key: first.key })
          await client.notificationEndpoints.create({ payload: { url: hook } })
          await client.close()
          const { admin, reviewer } = await createPendingStep(first.url, first.key)
          await Promise.all([admin.close(), reviewer.close()])
        })
        yield* first.service.kill("SIGKILL")
        yield* first.service.ended
        assert.strictEqual(yield* Queue.size(received), 0)

        const second = yield* serve(variables)
        const { body, headers } = yield* Queue.take(received)
        const { deliveries, id } = yield* Effect.promise(async () => {
          const client = connect({ url: second.url, key: first.key })
          const { endpoints } = await client.notificationEndpoints.list()
          await client.close()
          return { deliveries: endpoints[0]?.pending_deliveries, id: String(JSON.parse(body).id) }
        })
        assert.strictEqual(headers["x-svc-event-id"], id)
        assert.match(id, /^evt_[0-9a-f]{32}$/)
        assert.isAtMost(deliveries ?? 1, 1)
      }),
    timeout
  )
})
