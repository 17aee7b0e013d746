import { Schema, Struct } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { ApprovalEvent, ApprovalEventType } from "../domain/approvals/ApprovalEvent.ts"
import { documented } from "../domain/documented.ts"
import { EventId } from "../domain/Ids.ts"
import { Authentication, requires } from "./Authorization.ts"
import { RequestBody } from "./Middleware.ts"
import { cursor, MAX_LIMIT, pageQuery } from "./Pagination.ts"
import { CursorExpired } from "./Problems.ts"

/**
 * A place in the list of events: a position, and a time before which no event with a later position occurred, in Unix milliseconds.
 */
export const EventCursor = Schema.String.check(Schema.isPattern(/^[0-9]{1,15}\.[0-9]{1,15}$/u)).pipe(
  Schema.brand("EventCursor")
)
export type EventCursor = typeof EventCursor.Type

/** The filters of the list. */
export const eventFilter = {
  type: Schema.optionalKey(ApprovalEventType).annotateKey({ description: "Only events of this type." })
}

export const ApprovalEventPage = Schema.Struct({
  events: Schema.Array(ApprovalEvent)
    .check(documented({ maxItems: MAX_LIMIT }))
    .annotateKey({ description: "The events of this page, oldest first." }),
  next_cursor: cursor(EventCursor, "An opaque cursor.").annotateKey({
    description:
      "Pass it as `cursor` in the next request, also if this page is empty. Store it when the page is handled."
  }),
  has_more: Schema.Boolean.annotateKey({
    description: "Whether to request the next page at once. If false, all events up to now were listed."
  })
}).annotate({ identifier: "ApprovalEventPage", description: "One page of the list of events, oldest first." })
export type ApprovalEventPage = typeof ApprovalEventPage.Type

export class EventsApi extends HttpApiGroup.make("events")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: {
        ...Struct.pick(pageQuery(EventId), ["limit"]),
        ...eventFilter,
        cursor: Schema.optionalKey(
          cursor(
            EventCursor,
            "Where to continue: the `next_cursor` of the last page that was handled. Absent: at the oldest event."
          )
        )
      },
      success: ApprovalEventPage,
      error: CursorExpired
    })
      .middleware(requires("approvals.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listEvents",
          summary: "List events",
          description:
            "Lists the approval events that webhooks report, oldest first, with the same IDs and bodies. For a receiver without a public address, and to catch up after an outage. Events are in the order in which they were committed: with each page's `next_cursor` passed as `cursor`, none is left out, also none that was written meanwhile. They are listed for as long as deliveries are kept; a cursor older than that gets 410 `CURSOR_EXPIRED`, because events may be missing."
        })
      )
  )
  .prefix("/v1/events")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Events",
      description: "The events of an organization, to be pulled."
    })
  ) {}
