import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Context, Effect } from "effect"
import { HttpBody, HttpServerRequest, HttpServerResponse } from "effect/http"
import { ServerResponse } from "node:http"
import { RateLimited } from "../../api/Problems.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { makeKeyedSemaphore } from "../concurrency/KeyedSemaphore.ts"
import { inTurns, LoopTurns, streamInTurns } from "../concurrency/LoopTurns.ts"
import { LimitUse } from "../observability/LimitUse.ts"
import { COUNTED_BYTES, setOrganization, UnsentResponses } from "./UnsentResponses.ts"
import { WorkLimits } from "./WorkLimits.ts"

/**
 * Permits that a read takes while other organizations send requests: their statements then wait behind those of half as
 * many reads on a connection (head-of-line blocking).
 */
const PERMITS_IN_COMPANY = 2

/**
 * Cost of a read outside of its turns, in milliseconds of the event loop: parsing and authenticating the request, and,
 * per KiB, reading the rows from the connection and writing the response.
 */
const MILLIS_PER_READ = 0.5
const MILLIS_PER_KIB = 0.01
const MAX_REST_MILLIS = 50

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
   * only while other organizations send requests. The memory of a large response counts for the organization until its client has read it.
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
export const makeFairReads: Effect.Effect<FairReads> = Effect.gen(function* () {
  const turns = yield* LoopTurns
  const unsent = yield* UnsentResponses
  const use = yield* LimitUse
  // A list of a hundred takes milliseconds of the event loop and a connection of the pool, so an unlimited number of them
  // would delay the requests of all other organizations.
  const { reads } = yield* WorkLimits
  const permitsInCompany = Math.min(PERMITS_IN_COMPANY, reads)
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
  return {
    run:
      (org_id, { method }) =>
      (operation) =>
        Effect.suspend(() => {
          turns.arrive(org_id)
          const turn = turns.take(org_id)
          const counted = Effect.flatMap(operation, (response) => countFor(org_id, response))
          if (method !== "GET") return turns.hasCompany(org_id) ? Effect.andThen(turn, counted) : counted
          return withReadPermit(
            org_id,
            turns.hasCompany(org_id) ? permitsInCompany : 1
          )(
            Effect.andThen(
              Effect.andThen(awaitRoom(org_id), turn),
              Effect.map(inTurns(turn)(counted), (response) => {
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

const tooManyReads = (limit: number) =>
  Effect.fail(
    new RateLimited({
      detail: `Too many concurrent reads of this organization: ${limit} run at a time, and this one waited 5 s. Send fewer at once.`,
      retry_after_seconds: 1
    })
  )
