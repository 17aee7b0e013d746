import { DateTime, Effect, Queue } from "effect"
import type { EffectCalls } from "../../client/Call.ts"
import { StepId } from "../../domain/Ids.ts"
import type { ReceivedDelivery } from "../receiver.ts"
import { printDelivery, printResult, printStep } from "../print.ts"
import { clientFor, createClient } from "./clients.ts"
import { DemoFailed, during } from "./DemoFailed.ts"
import type { ReceiverProcess } from "./receiverProcess.ts"
import type { DemoService } from "./service.ts"

/** Maximum wait for a delivery: the first attempt is immediate. */
const DELIVERY_TIMEOUT = "15 seconds"

/** The step that the demo's agent requests. */
const refund = {
  step_id: StepId.make("refund-1"),
  tool: "payments.refund",
  action_class: "payment",
  arguments: { order: "4711", amount_cents: 12_900, currency: "EUR" }
}

/**
 * Plays the demo: an agent requests a refund, the receiver gets the event, a reviewer approves, the receiver gets that event, and the
 * agent's repeated request is allowed. Everything it creates in the service is removed with the scope. Fails at the first deviation, in
 * particular an invalid signature.
 */
export const playDemo = Effect.fnUntraced(function* (service: DemoService, receiver: ReceiverProcess) {
  const admin = yield* clientFor(service, service.key)
  yield* printStep("The service", `${service.url} (${service.about})`)

  const agent = yield* createClient(service, admin, "runtime", "demo agent")
  const reviewer = yield* createClient(service, admin, "reviewer", "demo reviewer")
  yield* printStep("Two keys", "demo agent (preset runtime)", "demo reviewer (preset reviewer)")

  const url = `http://127.0.0.1:${receiver.port}/countersign`
  yield* receiver.useSecret(yield* createEndpoint(admin, url))
  yield* printStep(
    "A webhook endpoint",
    `${url}, process ${receiver.pid}`,
    "for approval.requested and approval.approved"
  )

  const session_id = yield* openSession(agent)
  const requestedStep = yield* agent.sessions
    .step({ params: { id: session_id }, payload: refund })
    .pipe(during("requesting the step"))
  yield* printStep(
    `The agent requests a step: ${refund.tool} ${JSON.stringify(refund.arguments)}`,
    `decision: ${requestedStep.decision}`,
    `reason: ${requestedStep.reason}`
  )
  if (requestedStep.decision !== "pending" || requestedStep.approval_id === null) {
    return yield* new DemoFailed({
      message:
        `the decision is ${requestedStep.decision}, expected pending: a rule of the organization decides ${refund.tool} ` +
        `without a reviewer`
    })
  }

  yield* printStep("The receiver gets the event")
  const requested = yield* expectEvent(receiver, "approval.requested", requestedStep.approval_id)

  const approval = yield* reviewer.approvals
    .get({ params: { id: requestedStep.approval_id } })
    .pipe(during("reading the approval"))
  yield* printStep(
    `The reviewer reads the pending approval: ${approval.approval_id}`,
    `${approval.tool} ${JSON.stringify(approval.arguments)}`,
    `expires at ${DateTime.formatIso(approval.expires_at)}, timeout action: ${approval.timeout_action}`
  )

  const decided = yield* reviewer.approvals
    .decide({
      params: { id: approval.approval_id },
      payload: { decision: "approve", comment: "The customer sent it back" }
    })
    .pipe(during("approving"))
  yield* printStep(
    "The reviewer approves",
    `status: ${decided.status}, by ${decided.decided_by?.name ?? "unknown"}`
  )

  yield* printStep("The receiver gets the event")
  const approved = yield* expectEvent(receiver, "approval.approved", requestedStep.approval_id)

  const repeatedStep = yield* agent.sessions
    .step({ params: { id: session_id }, payload: refund })
    .pipe(during("requesting the step again"))
  yield* printStep(
    "The agent requests the step again",
    `decision: ${repeatedStep.decision}`,
    `reason: ${repeatedStep.reason}`
  )
  if (repeatedStep.decision !== "allow") {
    return yield* new DemoFailed({
      message: `the decision for the approved step is ${repeatedStep.decision}, expected allow`
    })
  }
  yield* printResult(true, `All verified: ${requested.type} and ${approved.type}, and the step is allowed.`)
})

/** Creates an endpoint, which is removed at the end, and returns its secret. */
const createEndpoint = (admin: EffectCalls, url: string) =>
  Effect.acquireRelease(
    admin.notificationEndpoints
      .create({ payload: { url, events: ["approval.requested", "approval.approved"] } })
      .pipe(
        Effect.catchTag("INVALID_URL", (refused) =>
          Effect.fail(
            new DemoFailed({
              message:
                `the service refuses to send to ${url} (${refused.message}): start it on this machine with ` +
                `COUNTERSIGN_EGRESS_ALLOW=127.0.0.0/8 COUNTERSIGN_EGRESS_HTTP=true`
            })
          )
        ),
        during("creating the endpoint")
      ),
    ({ endpoint }) => Effect.ignore(admin.notificationEndpoints.remove({ params: { id: endpoint.id } }))
  ).pipe(Effect.map(({ secret }) => secret))

/** Opens a session, which is closed at the end. */
const openSession = (agent: EffectCalls) =>
  Effect.acquireRelease(
    agent.sessions.create({ payload: { metadata: { demo: true } } }).pipe(during("opening a session")),
    ({ session_id }) => Effect.ignore(agent.sessions.close({ params: { id: session_id } }))
  ).pipe(Effect.map(({ session_id }) => session_id))

/**
 * Prints deliveries until one of this type and approval arrives; each must verify. Other deliveries, caused by other approvals of the
 * organization, are skipped.
 */
const expectEvent = Effect.fnUntraced(function* (
  receiver: ReceiverProcess,
  type: string,
  approval_id: string
) {
  const next = Effect.gen(function* () {
    while (true) {
      const received = yield* Queue.take(receiver.deliveries)
      yield* printDelivery(received)
      if (!received.verification.ok) {
        return yield* new DemoFailed({
          message: `a delivery failed verification (${received.verification.reason}): ${received.verification.message}`
        })
      }
      if (received.verification.type === type && concernsApproval(received, approval_id))
        return received.verification
    }
  })
  return yield* next.pipe(
    Effect.timeoutOrElse({
      duration: DELIVERY_TIMEOUT,
      orElse: () =>
        Effect.fail(new DemoFailed({ message: `the receiver got no ${type} within ${DELIVERY_TIMEOUT}` }))
    })
  )
})

/** Whether a verified body contains the approval's id, which no other event does. */
const concernsApproval = (received: ReceivedDelivery, approval_id: string): boolean =>
  received.body.includes(`"${approval_id}"`)
