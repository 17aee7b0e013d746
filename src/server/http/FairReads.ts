import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { RateLimited } from "../../api/Problems.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { makeKeyedSemaphore } from "../concurrency/KeyedSemaphore.ts"
import { inTurns, LoopTurns, streamInTurns } from "../concurrency/LoopTurns.ts"

/**
 * Reads that run concurrently for one organization; others wait in order. A list of a hundred takes milliseconds of the event loop and a
 * connection of the pool, so an unlimited number of them would delay the requests of all other organizations.
 */
const CONCURRENT_READS = 4

/**
 * What a read takes outside of its turns, in milliseconds of the event loop: parsing and authenticating the request, and, per KiB, reading the
 * rows from the connection and writing the response.
 */
const MILLIS_PER_READ = 0.5
const MILLIS_PER_KIB = 0.01
const MAX_REST_MILLIS = 50

/** Shares the process between the organizations that send requests to it. */
export interface FairReads {
  /**
   * Runs an authenticated operation. A read waits for a permit of its organization, and for its turn at the event loop. So does each part of
   * an export, after the permit was returned. Any other request waits for its turn only while other organizations send requests.
   */
  readonly run: (
    org_id: OrgId,
    endpoint: { readonly method: string }
  ) => <E, R>(
    operation: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
  ) => Effect.Effect<HttpServerResponse.HttpServerResponse, E | RateLimited, R>
}

/**
 * Each kind of authentication has permits of its own, so that a flood of reads by API keys does not delay the people of the organization who
 * use the console.
 */
export const makeFairReads: Effect.Effect<FairReads> = Effect.map(LoopTurns, (turns): FairReads => {
  const withReadPermit = makeKeyedSemaphore({ permits: CONCURRENT_READS, onTimeout: tooManyReads })
  return {
    run:
      (org_id, { method }) =>
      (operation) =>
        Effect.suspend(() => {
          turns.arrive(org_id)
          const turn = turns.take(org_id)
          if (method !== "GET") return turns.hasCompany(org_id) ? Effect.andThen(turn, operation) : operation
          return withReadPermit(org_id)(
            Effect.andThen(
              turn,
              Effect.map(inTurns(turn)(operation), (response) => {
                const kibibytes =
                  response.body._tag === "Uint8Array" ? response.body.contentLength / 1_024 : 0
                turns.charge(org_id, Math.min(MAX_REST_MILLIS, MILLIS_PER_READ + kibibytes * MILLIS_PER_KIB))
                return inTurnsWhileSent(response, turn)
              })
            )
          )
        })
  }
})

/** Makes the parts of a streamed response take turns, unless it is an event stream, which sends what happens when it happens. */
const inTurnsWhileSent = (response: HttpServerResponse.HttpServerResponse, turn: Effect.Effect<void>) => {
  const { body, headers, status } = response
  return body._tag === "Stream" && !body.contentType.startsWith("text/event-stream")
    ? HttpServerResponse.stream(streamInTurns(turn)(body.stream), {
        status,
        headers,
        contentType: body.contentType
      })
    : response
}

const tooManyReads = Effect.fail(
  new RateLimited({
    detail: `Too many concurrent reads of this organization: ${CONCURRENT_READS} run at a time, and this one waited 5 s. Send fewer at once.`,
    retry_after_seconds: 1
  })
)
