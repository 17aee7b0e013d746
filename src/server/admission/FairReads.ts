import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Context, Effect, Exit } from "effect"
import { HttpBody, HttpServerRequest, HttpServerResponse } from "effect/http"
import { ServerResponse } from "node:http"
import { RateLimited } from "../../api/Problems.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { makeKeyedSemaphore } from "./KeyedSemaphore.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"
import { inOrder, inTurns, LoopTurns, streamInTurns } from "./LoopTurns.ts"
import { LimitUse } from "../observability/LimitUse.ts"
import { COUNTED_BYTES, setOrganization, UnsentResponses } from "./UnsentResponses.ts"
import { WorkLimits } from "./WorkLimits.ts"

/**
 * Permits that a read takes while other organizations send requests: on a connection, their statements then wait behind
 * half as many reads (head-of-line blocking).
 */
const PERMITS_UNDER_CONTENTION = 2

/**
 * Cost of a request outside of its turns, in milliseconds of the event loop: parsing and authenticating it, and what
 * follows its statements; for a read, per KiB, reading the rows from the connection and writing the response.
 */
const MILLIS_PER_REQUEST = 0.5
const MILLIS_PER_KIB = 0.01

/**
 * Cost of a read per millisecond that it took, without its waits for turns. Meanwhile a process of PostgreSQL worked for
 * it, or it waited because all processors were busy. Writes take as long, but wait for the disk.
 */
const MILLIS_PER_DURATION = 0.3

const MAX_COST_MILLIS = 20

/** How long a request waits for its first turn. */
const TURN_WAIT_MILLIS = 5_000

/** How long a read waits until the clients of its organization have read earlier responses. */
const UNREAD_WAIT = "5 seconds"

/**
 * Texts of at least this size are encoded before they are sent, because the HTTP library keeps them in memory until
 * they are sent. Smaller ones are not: Node.js sends a text of 100 KB with half of the processor time that its bytes
 * take.
 */
const ENCODED_BYTES = 2 ** 20

/** Shares the process between the organizations that send requests to it. */
export interface FairReads {
  /**
   * Runs an authenticated operation. A read waits for a permit of its organization, until the organization has few enough unread responses,
   * and for its turn at the event loop. So does each part of an export, after the permit was returned. Any other request waits for its turn
   * only while the event loop is contended. Both waits end after 5 s with 429. The memory of a large response counts for the organization until its client has
   * read it.
   */
  readonly run: (
    org_id: OrgId,
    endpoint: { readonly method: string }
  ) => <E, R>(
    operation: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
  ) => Effect.Effect<HttpServerResponse.HttpServerResponse, E | RateLimited, R>
}

/**
 * Each kind of authentication has permits of its own, so that a flood of reads by API keys does not delay the people of
 * the organization who use the console.
 */
export const makeFairReads: Effect.Effect<FairReads, never, LimitUse | UnsentResponses | WorkLimits> =
  Effect.gen(function* () {
    const turns = yield* LoopTurns
    const unsent = yield* UnsentResponses
    const use = yield* LimitUse
    // A list of a hundred takes milliseconds of the event loop and a connection of the pool, so an unlimited number of them
    // would delay the requests of all other organizations.
    const { reads } = yield* WorkLimits
    const contendedPermits = Math.min(PERMITS_UNDER_CONTENTION, reads)
    const withReadPermit = makeKeyedSemaphore({
      permits: reads,
      onTimeout: Effect.suspend(() => {
        use.refused("concurrent_reads")
        return tooManyReads(reads)
      })
    })
    const tooManyUnread = Effect.suspend(() => {
      use.refused("unread_responses")
      return Effect.fail(
        new RateLimited({
          detail:
            "This request waited 5 s because the organization's clients have not read earlier responses. Read each response completely, or close its connection.",
          retry_after_seconds: 5
        })
      )
    })
    const awaitRoom = (org_id: OrgId) =>
      Effect.suspend(() =>
        unsent.hasRoom(org_id)
          ? Effect.void
          : Effect.timeoutOrElse(unsent.awaitRoom(org_id), {
              duration: UNREAD_WAIT,
              orElse: () => tooManyUnread
            })
      )
    /** Runs a request when its organization has a turn. Its later turns have the place of this one. */
    const inFirstTurn = <A, E, R>(org_id: OrgId, request: Effect.Effect<A, E, R>) =>
      Effect.clockWith((clock) => {
        const start = monotonicMillis(clock)
        return Effect.flatMap(
          turns.takeWithin(org_id, TURN_WAIT_MILLIS),
          (hasTurn): Effect.Effect<A, E | RateLimited, R> => {
            if (hasTurn) {
              use.used("event_loop_turns", (monotonicMillis(clock) - start) / TURN_WAIT_MILLIS)
              return request
            }
            use.refused("event_loop_turns")
            return tooManyWaiting
          }
        )
      })
    const chargedWrite = <A, E, R>(org_id: OrgId, write: Effect.Effect<A, E, R>) =>
      Effect.suspend(() => {
        turns.charge(org_id, MILLIS_PER_REQUEST)
        return write
      })
    /** Runs a read in turns, and charges its organization for the time it took, whether it succeeds or not. */
    const chargedRead = <E, R>(
      org_id: OrgId,
      read: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
    ) =>
      Effect.clockWith((clock) => {
        const start = monotonicMillis(clock)
        let waited = 0
        const turn = Effect.suspend(() => {
          const waitStart = monotonicMillis(clock)
          return Effect.map(turns.take(org_id), () => {
            waited += monotonicMillis(clock) - waitStart
          })
        })
        return Effect.onExit(inTurns(turn)(read), (exit) =>
          Effect.sync(() => {
            const body = Exit.isSuccess(exit) ? exit.value.body : undefined
            const kibibytes = body?._tag === "Uint8Array" ? body.contentLength / 1_024 : 0
            // Several waits of one read may overlap.
            const millis = Math.max(0, monotonicMillis(clock) - start - waited)
            const cost = MILLIS_PER_REQUEST + kibibytes * MILLIS_PER_KIB + millis * MILLIS_PER_DURATION
            turns.charge(org_id, Math.min(MAX_COST_MILLIS, cost))
          })
        )
      })
    return {
      run:
        (org_id, { method }) =>
        (operation) =>
          Effect.suspend(() => {
            const counted = Effect.flatMap(operation, (response) => countFor(org_id, response))
            if (method !== "GET") {
              const write = chargedWrite(org_id, counted)
              return turns.isContended(org_id) ? inOrder(inFirstTurn(org_id, write)) : write
            }
            const read = Effect.map(chargedRead(org_id, counted), (response) =>
              inTurnsWhileSent(response, turns.take(org_id))
            )
            return inOrder(
              withReadPermit(
                org_id,
                turns.hasCompany(org_id) ? contendedPermits : 1
              )(Effect.andThen(awaitRoom(org_id), inFirstTurn(org_id, read)))
            )
          })
    }
  })

/**
 * Counts a large or streamed response for its organization. A text is encoded here, so that only its bytes stay in memory until they are
 * sent, outside of the JavaScript heap.
 */
const countFor = (
  org_id: OrgId,
  response: HttpServerResponse.HttpServerResponse
): Effect.Effect<HttpServerResponse.HttpServerResponse> => {
  const { body } = response
  if (body._tag !== "Stream" && (body._tag !== "Uint8Array" || body.contentLength < COUNTED_BYTES))
    return Effect.succeed(response)
  return Effect.withFiber((fiber) => {
    const request = Context.getOrUndefined(fiber.context, HttpServerRequest.HttpServerRequest)
    const sent = request === undefined ? undefined : NodeHttpServerRequest.toServerResponse(request)
    if (sent instanceof ServerResponse) setOrganization(sent, org_id)
    if (body._tag === "Stream" || body.text === undefined || body.contentLength < ENCODED_BYTES)
      return Effect.succeed(response)
    const bytes = HttpBody.uint8Array(Buffer.from(body.text), body.contentType)
    return Effect.succeed(HttpServerResponse.setBody(response, bytes))
  })
}

export const isEventStream = (body: HttpBody.HttpBody): boolean =>
  body._tag === "Stream" && body.contentType.startsWith("text/event-stream")

/** Makes the parts of a streamed response take turns, unless it is an event stream, which sends what happens when it happens. */
const inTurnsWhileSent = (response: HttpServerResponse.HttpServerResponse, turn: Effect.Effect<void>) => {
  const { body, headers, status } = response
  return body._tag === "Stream" && !isEventStream(body)
    ? HttpServerResponse.stream(streamInTurns(turn)(body.stream), {
        status,
        headers,
        contentType: body.contentType
      })
    : response
}

const tooManyWaiting = Effect.fail(
  new RateLimited({
    detail:
      "This request waited 5 s for its turn, because the organization sends more requests than its share of this replica. Send fewer at once.",
    retry_after_seconds: 1
  })
)

const tooManyReads = (limit: number) =>
  Effect.fail(
    new RateLimited({
      detail: `Too many concurrent reads of this organization: ${limit} run at a time, and this one waited 5 s. Send fewer at once.`,
      retry_after_seconds: 1
    })
  )
