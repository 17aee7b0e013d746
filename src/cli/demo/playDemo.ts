import { Context, DateTime, Effect, Layer, Queue, Redacted } from "effect"
import { Client } from "../../client/Client.ts"
import type { EffectCalls } from "../../client/Call.ts"
import type { Preset } from "../../domain/identity/Scope.ts"
import { StepId } from "../../domain/Ids.ts"
import type { ReceivedDelivery } from "../receiver.ts"
import * as show from "../show.ts"
import { DemoFailed, during } from "./DemoFailed.ts"
import type { ReceiverProcess } from "./receiverProcess.ts"
import type { DemoService } from "./service.ts"

/** Longest wait for a notification: the first attempt is made at once. */
const PATIENCE = "15 seconds"

/** What the agent of the story wants to do. */
const refund = {
  step_id: StepId.make("refund-1"),
  tool: "payments.refund",
  action_class: "payment",
  arguments: { order: "4711", amount_cents: 12_900, currency: "EUR" }
}

/**
 * The story: an agent asks before it refunds, a person is asked, the receiver hears of it, the person approves, the receiver hears of
 * that, the agent asks again and may. What it makes in the service is removed with the scope. Fails where anything is not as it
 * should be, a signature above all.
 */
export const playDemo = Effect.fnUntraced(function* (service: DemoService, receiver: ReceiverProcess) {
  const admin = yield* clientFor(service, service.key)
  yield* show.step("The service", `${service.url} (${service.about})`)

  const agent = yield* clientOf(service, admin, "runtime", "demo agent")
  const reviewer = yield* clientOf(service, admin, "reviewer", "demo reviewer")
  yield* show.step("Two keys", "demo agent (preset runtime)", "demo reviewer (preset reviewer)")

  const url = `http://127.0.0.1:${receiver.port}/countersign`
  yield* receiver.useSecret(yield* makeEndpoint(admin, url))
  yield* show.step(
    "A notification endpoint",
    `${url}, process ${receiver.pid}`,
    "for approval.requested and approval.approved"
  )

  const session_id = yield* openSession(agent)
  const asked = yield* agent.sessions
    .step({ params: { id: session_id }, payload: refund })
    .pipe(during("asking for the step"))
  yield* show.step(
    `The agent asks: ${refund.tool} ${JSON.stringify(refund.arguments)}`,
    `decision: ${asked.decision}`,
    `reason: ${asked.reason}`
  )
  if (asked.decision !== "pending" || asked.approval_id === null) {
    return yield* new DemoFailed({
      message: `the step was answered ${asked.decision}, not pending: the organization's approval rules decide ${refund.tool} without a person`
    })
  }

  yield* show.step("The receiver is told")
  const requested = yield* expectEvent(receiver, "approval.requested", asked.approval_id)

  const approval = yield* reviewer.approvals
    .get({ params: { id: asked.approval_id } })
    .pipe(during("reading the approval"))
  yield* show.step(
    `The pending approval, as the reviewer sees it: ${approval.approval_id}`,
    `${approval.tool} ${JSON.stringify(approval.arguments)}`,
    `waits until ${DateTime.formatIso(approval.expires_at)}, then: ${approval.timeout_action}`
  )

  const decided = yield* reviewer.approvals
    .decide({
      params: { id: approval.approval_id },
      payload: { decision: "approve", comment: "The customer sent it back" }
    })
    .pipe(during("deciding"))
  yield* show.step(
    "The reviewer approves",
    `status: ${decided.status}, by ${decided.decided_by?.name ?? "nobody"}`
  )

  yield* show.step("The receiver is told")
  const approved = yield* expectEvent(receiver, "approval.approved", asked.approval_id)

  const again = yield* agent.sessions
    .step({ params: { id: session_id }, payload: refund })
    .pipe(during("asking again"))
  yield* show.step("The agent asks again", `decision: ${again.decision}`, `reason: ${again.reason}`)
  if (again.decision !== "allow") {
    return yield* new DemoFailed({
      message: `the approved step was answered ${again.decision}, not allow`
    })
  }
  yield* show.verdict(true, `All verified: ${requested.type} and ${approved.type}, and the step is allowed.`)
})

const clientFor = (service: DemoService, key: Redacted.Redacted) =>
  Effect.map(Layer.build(Client.layer({ url: service.url, key })), Context.get(Client))

/** A client with a new key, which is revoked at the end. */
const clientOf = Effect.fnUntraced(function* (
  service: DemoService,
  admin: EffectCalls,
  preset: Preset,
  name: string
) {
  const { secret } = yield* Effect.acquireRelease(
    admin.api_keys.create({ payload: { name, preset } }).pipe(during(`making the key of the ${name}`)),
    ({ key }) => Effect.ignore(admin.api_keys.revoke({ params: { id: key.id } }))
  )
  return yield* clientFor(service, Redacted.make(secret, { label: "ApiKey" }))
})

/** The secret of a new endpoint, which is removed at the end. */
const makeEndpoint = (admin: EffectCalls, url: string) =>
  Effect.acquireRelease(
    admin.notification_endpoints
      .create({ payload: { url, events: ["approval.requested", "approval.approved"] } })
      .pipe(
        Effect.catchTag("INVALID_URL", (refused) =>
          Effect.fail(
            new DemoFailed({
              message: `the service does not send to ${url} (${refused.message}): start it with COUNTERSIGN_EGRESS_ALLOW=127.0.0.0/8 COUNTERSIGN_EGRESS_HTTP=true, on this machine`
            })
          )
        ),
        during("making the endpoint")
      ),
    ({ endpoint }) => Effect.ignore(admin.notification_endpoints.remove({ params: { id: endpoint.id } }))
  ).pipe(Effect.map(({ secret }) => secret))

/** A new session, which is closed at the end. */
const openSession = (agent: EffectCalls) =>
  Effect.acquireRelease(
    agent.sessions.create({ payload: { metadata: { demo: true } } }).pipe(during("opening a session")),
    ({ session_id }) => Effect.ignore(agent.sessions.close({ params: { id: session_id } }))
  ).pipe(Effect.map(({ session_id }) => session_id))

/**
 * The next delivery, shown. It must verify, and be of this type and approval; what else the organization's approvals cause meanwhile
 * is passed over, once it is verified.
 */
const expectEvent = Effect.fnUntraced(function* (
  receiver: ReceiverProcess,
  type: string,
  approval_id: string
) {
  const next = Effect.gen(function* () {
    while (true) {
      const received = yield* Queue.take(receiver.deliveries)
      yield* show.delivery(received)
      if (!received.verification.ok) {
        return yield* new DemoFailed({
          message: `a delivery did not verify (${received.verification.reason}): ${received.verification.message}`
        })
      }
      if (received.verification.type === type && isAbout(received, approval_id)) return received.verification
    }
  })
  return yield* next.pipe(
    Effect.timeoutOrElse({
      duration: PATIENCE,
      orElse: () =>
        Effect.fail(new DemoFailed({ message: `no ${type} reached the receiver within ${PATIENCE}` }))
    })
  )
})

/** A verified body holds its approval's id, which is nobody else's text by chance. */
const isAbout = (received: ReceivedDelivery, approval_id: string): boolean =>
  received.body.includes(`"${approval_id}"`)
