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

/** One attempt a delivery, and no cooldown, so that a failure is there at once. */
export const oneAttempt = { COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0", COUNTERSIGN_NOTIFY_COOLDOWN_AFTER: "1000" }

/** What a receiver answers that is content. */
export const noContent: ScriptedReply = { status: 204 }

/** An admin of an organization of its own, and an endpoint at a receiver that answers as scripted. */
export const seedEndpoint = Effect.fnUntraced(function* (
  organization: string,
  answers: ReadonlyArray<ScriptedReply> = [noContent]
) {
  const countersign = yield* Countersign
  const admin = yield* countersign.client({}, organization)
  const receiver = yield* startScriptedServer(answers)
  const { endpoint, secret } = yield* admin.notification_endpoints.create({
    payload: { url: `${receiver.url}/hook/of-mine` }
  })
  return { admin, receiver, secret, endpoint, params: { id: endpoint.id } }
})

/** An agent asks for leave, so that `approval.requested` is recorded. */
export const requestApproval = Effect.fnUntraced(function* (client: ClientCalls) {
  const { session_id } = yield* client.sessions.create({})
  const { approval_id } = yield* client.sessions.step({
    params: { id: session_id },
    payload: { step_id: StepId.make("1"), tool: "payments.refund", action_class: "write" }
  })
  return approval_id ?? assert.fail("the step waits for a person")
})

/** The endpoint's deliveries, once they hold. */
export const awaitDeliveries = (
  client: ClientCalls,
  id: EndpointId,
  holds: (list: ReadonlyArray<DeliveryRecord>) => boolean
) =>
  eventually(
    Effect.map(client.notification_endpoints.deliveries({ params: { id } }), (answer) => answer.deliveries),
    holds
  )

/** Whether there are so many, and all have this status. */
export const allHaveStatus =
  (count: number, status: string) =>
  (list: ReadonlyArray<DeliveryRecord>): boolean =>
    list.length === count && list.every((record) => record.status === status)

/** The one delivery there is. */
export const awaitOnlyDelivery = (client: ClientCalls, id: EndpointId, status: string) =>
  Effect.map(
    awaitDeliveries(client, id, allHaveStatus(1, status)),
    ([record]) => record ?? assert.fail("a delivery")
  )

/** The headers as a framework hands them over. */
export const headersOf = (seen: SeenRequest) =>
  Object.fromEntries(Object.entries(seen.headers).map(([name, value]) => [name, String(value)]))

/** Which of the secrets a request is signed with, if our helper and both published libraries agree. */
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
