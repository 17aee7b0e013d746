import { assert } from "@effect/vitest"
import { Effect, Result } from "effect"
import { Webhook as StandardWebhook } from "standardwebhooks"
import { Webhook as SvixWebhook } from "svix"
import type { ClientCalls } from "../../src/client/Client.ts"
import type { DeliveryRecord } from "../../src/domain/delivery/DeliveryState.ts"
import { type EndpointId, StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { verify } from "../../src/webhook/index.ts"
import { eventually } from "./eventually.ts"
import { type ScriptedReply, startScriptedServer, type SeenRequest } from "./scripted.ts"

/** One attempt for each delivery and no cooldown, so that deliveries fail immediately. */
export const oneAttempt = { COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0", COUNTERSIGN_NOTIFY_COOLDOWN_AFTER: "1000" }

/** A success response. */
export const noContent: ScriptedReply = { status: 204 }

/** Creates an organization with an admin, and an endpoint at a scripted receiver. */
export const seedEndpoint = Effect.fnUntraced(function* (
  organization: string,
  answers: ReadonlyArray<ScriptedReply> = [noContent]
) {
  const countersign = yield* Countersign
  const admin = yield* countersign.client({}, organization)
  const receiver = yield* startScriptedServer(answers)
  const { endpoint, secret } = yield* admin.notificationEndpoints.create({
    payload: { url: `${receiver.url}/hook/of-mine` }
  })
  return { admin, receiver, secret, endpoint, params: { id: endpoint.id } }
})

/** Requests a step that needs an approval, which records `approval.requested`. */
export const requestApproval = Effect.fnUntraced(function* (client: ClientCalls) {
  const { session_id } = yield* client.sessions.create({})
  const { approval_id } = yield* client.sessions.step({
    params: { id: session_id },
    payload: { step_id: StepId.make("1"), tool: "payments.refund", action_class: "write" }
  })
  return approval_id ?? assert.fail("the step needs an approval")
})

/** The endpoint's deliveries, once `holds` accepts them. */
export const awaitDeliveries = (
  client: ClientCalls,
  id: EndpointId,
  holds: (list: ReadonlyArray<DeliveryRecord>) => boolean
) =>
  eventually(
    Effect.map(
      client.notificationEndpoints.listDeliveries({ params: { id } }),
      (answer) => answer.deliveries
    ),
    holds
  )

/** Whether there are `count` deliveries, all with this status. */
export const allHaveStatus =
  (count: number, status: string) =>
  (list: ReadonlyArray<DeliveryRecord>): boolean =>
    list.length === count && list.every((record) => record.status === status)

/** The only delivery of an endpoint, once it has this status. */
export const awaitOnlyDelivery = (client: ClientCalls, id: EndpointId, status: string) =>
  Effect.map(
    awaitDeliveries(client, id, allHaveStatus(1, status)),
    ([record]) => record ?? assert.fail("a delivery")
  )

/** The headers as an HTTP framework passes them to a handler. */
export const headersOf = (seen: SeenRequest) =>
  Object.fromEntries(Object.entries(seen.headers).map(([name, value]) => [name, String(value)]))

/** Indexes of the secrets that verify a request. Asserts that `countersign/webhook` and both published libraries agree. */
export const matchingSecrets = (seen: SeenRequest | undefined, secrets: ReadonlyArray<string>) =>
  Effect.promise(async () => {
    const request = seen ?? assert.fail("a request")
    const headers = headersOf(request)
    const found: Array<number> = []
    for (const [index, secret] of secrets.entries()) {
      const { ok } = await verify(request.body, headers, secret)
      const standard = Result.isSuccess(
        Result.try(() => new StandardWebhook(secret).verify(request.body, headers))
      )
      const svix = Result.isSuccess(Result.try(() => new SvixWebhook(secret).verify(request.body, headers)))
      assert.strictEqual(standard, ok, `standardwebhooks and ours about secret ${index}`)
      assert.strictEqual(svix, ok, `svix and ours about secret ${index}`)
      if (ok) found.push(index)
    }
    return found
  })
