/** The message that every side sends: the same bytes, signed in the same way, to the same receiver. */
import { Effect, Result } from "effect"
import { type Dispatcher, Agent, request } from "undici"
import {
  generateSigningSecret,
  signatureHeaders,
  makeSigningKey,
  type SigningKeys
} from "../../../src/domain/delivery/WebhookSignature.ts"

/** Organizations, and endpoints per organization. An event goes to all endpoints of one organization. */
export const ORGANIZATIONS = 10
export const ENDPOINTS = 5

/** Concurrent requests, for every side. */
export const CONCURRENCY = 64

/** Request time-out. */
const TIMEOUT_MILLIS = 5_000

/** An event body with the size of an approval event. */
export const body = JSON.stringify({ id: "evt", type: "approval.requested", text: "x".repeat(800) })

/** The path of an endpoint at the receiver. */
export const pathOf = (organization: number, endpoint: number): string => `/${organization}/${endpoint}`

/** The path at which the receiver accepts requests and never answers. */
export const HANGING_PATH = "/hang"

/** A job in a peer's queue. The worker has the secrets in memory. */
export interface Job {
  readonly event_id: string
  readonly path: string
  readonly body: string
}

/** The jobs of one event. */
export const jobsOf = (event_id: string, organization: number): ReadonlyArray<Job> =>
  Array.from({ length: ENDPOINTS }, (_, endpoint) => ({
    event_id,
    path: pathOf(organization, endpoint),
    body
  }))

/** Makes a function that signs and sends one message the way most applications would. It rejects unless the answer is 2xx. */
export const makePost = async (port: number): Promise<(job: Job) => Promise<void>> => {
  const dispatcher: Dispatcher = new Agent({
    connections: CONCURRENCY,
    headersTimeout: TIMEOUT_MILLIS,
    bodyTimeout: TIMEOUT_MILLIS
  })
  const keys = new Map<string, SigningKeys>()
  for (let organization = 0; organization < ORGANIZATIONS; organization++) {
    for (let endpoint = 0; endpoint < ENDPOINTS; endpoint++) {
      const current = Result.getOrThrow(makeSigningKey(await Effect.runPromise(generateSigningSecret)))
      keys.set(pathOf(organization, endpoint), { current, previous: null })
    }
  }
  return async (job) => {
    const signing = keys.get(job.path)
    if (signing === undefined) throw new Error(`no endpoint at ${job.path}`)
    const answer = await request(`http://127.0.0.1:${port}${job.path}`, {
      method: "POST",
      dispatcher,
      headers: {
        "content-type": "application/json",
        "user-agent": "bench",
        ...signatureHeaders(signing, {
          eventId: job.event_id,
          eventType: "approval.requested",
          timestamp: Math.floor(Date.now() / 1000),
          body: job.body
        })
      },
      body: job.body
    })
    await answer.body.dump()
    if (answer.statusCode >= 300) throw new Error(`answered ${answer.statusCode}`)
  }
}
