import { assert } from "@effect/vitest"
import { Effect, Fiber, Redacted } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { eventually } from "./eventually.ts"
import { operations, targetOf } from "./seedOneOfEach/operations.ts"
import { requestOf, requests } from "./seedOneOfEach/requests.ts"
import { seedOneOfEach } from "./seedOneOfEach/seedOneOfEach.ts"
import { send } from "./service.ts"

/** The seeded collector rejects spans, the seeded endpoint has no receiver, and the spare key no address. */
const refused: Readonly<Record<string, number>> = {
  "telemetryDestinations.test": 502,
  "notificationEndpoints.verify": 502,
  "apiKeys.verifyEmail": 409
}

/** Reads an event stream until it has a text. */
const readUntil = (url: string, key: Redacted.Redacted, text: string) =>
  Effect.promise(async (signal) => {
    const response = await fetch(url, {
      headers: { authorization: `Bearer ${Redacted.value(key)}` },
      signal
    })
    let read = ""
    for await (const chunk of (response.body ?? assert.fail("no stream")).pipeThrough(
      new TextDecoderStream()
    )) {
      read += chunk
      if (read.includes(text)) return
    }
    assert.fail(`The stream ended without ${text}: ${read}`)
  })

/**
 * Sends a request of every operation to a service that has `seedEnvironment`, and follows an approval from the step to the stream and the receiver: for a
 * database that the other tests do not run on.
 */
export const useEveryOperation = Effect.gen(function* () {
  const countersign = yield* Countersign
  const receiver = yield* countersign.receiver()
  const agent = yield* countersign.client({ preset: "runtime" })
  const reviewer = yield* countersign.client({ preset: "reviewer" })
  const { session_id } = yield* agent.sessions.create({ payload: {} })
  yield* agent.sessions.step({
    params: { id: session_id },
    payload: { step_id: StepId.make("one"), tool: "refund", action_class: "write", arguments: { amount: 1 } }
  })
  const id = yield* countersign.awaitPending()
  const stream = operations.find(({ name }) => name === "sessions.stream") ?? assert.fail("no stream")
  const streamed = yield* Effect.forkScoped(
    readUntil(
      `${countersign.url}${targetOf(stream, { params: { id: session_id } })}`,
      yield* countersign.key({ preset: "runtime" }),
      '"approved"'
    )
  )
  yield* reviewer.approvals.decide({ params: { id }, payload: { decision: "approve" } })
  yield* eventually(
    Effect.sync(() => receiver.events.map(({ type }) => type)),
    (types) => types.includes("approval.approved")
  )
  yield* Fiber.join(streamed)

  const seeded = yield* seedOneOfEach("every operation")
  for (const name of Object.keys(requests)) {
    const operation = operations.find((one) => one.name === name) ?? assert.fail(name)
    // Its response does not end.
    if (name === "sessions.stream") continue
    const request = yield* requestOf(name, seeded)
    const answer = yield* send(targetOf(operation, request), {
      method: operation.method,
      key: seeded.key,
      ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) })
    })
    const what = `${name}: ${JSON.stringify(answer.body)}`
    if (name in refused) assert.strictEqual(answer.status, refused[name], what)
    else assert.isBelow(answer.status, 300, what)
  }
})
