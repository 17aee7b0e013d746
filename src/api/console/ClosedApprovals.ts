/** Closed approvals as the console lists them: by the time of their close, with filters that the public list does not have. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { ApprovalId, KeyId } from "../../domain/Ids.ts"
import { Timestamp } from "../../domain/Time.ts"
import { Authentication, requires } from "../Authorization.ts"
import { RequestBody } from "../Middleware.ts"
import { withoutNul } from "../Text.ts"
import { CONSOLE_PATH } from "./consolePath.ts"
import { InboxApproval } from "./InboxApproval.ts"

/** Approvals of one page. */
export const CLOSED_PAGE = 50

/** The most approvals that are examined for one page of a filtered list. */
export const MAX_EXAMINED_APPROVALS = 10_000

/** What closed an approval: a person (`decided`, who approved or rejected), the timeout, or the close of its session. */
export const ClosedOutcome = Schema.Literals(["decided", "approved", "rejected", "timeout", "session_closed"])
export type ClosedOutcome = typeof ClosedOutcome.Type

/** The filters of the list. */
export const closedFilter = {
  tool: Schema.optionalKey(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200), withoutNul)),
  decided_by: Schema.optionalKey(KeyId),
  outcome: Schema.optionalKey(ClosedOutcome),
  /** Closed at this time or later. */
  since: Schema.optionalKey(Timestamp),
  /** Closed before this time. */
  until: Schema.optionalKey(Timestamp)
}
export type ClosedFilter = Schema.Struct.Type<typeof closedFilter>

/** The place of an approval in the list. */
export const ClosedCursor = Schema.Struct({ before: Timestamp, before_id: ApprovalId })
export type ClosedCursor = typeof ClosedCursor.Type

export const ClosedPage = Schema.Struct({
  approvals: Schema.Array(InboxApproval),
  next_cursor: Schema.NullOr(ClosedCursor),
  /** How far back the page has searched, if it ended before the list did. */
  searched_to: Schema.NullOr(Timestamp)
}).annotate({ identifier: "ClosedPage" })
export type ClosedPage = typeof ClosedPage.Type

/** The closed approvals. */
export class ConsoleClosedApprovalsApi extends HttpApiGroup.make("closed_approvals")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: {
        before: Schema.optionalKey(Timestamp),
        before_id: Schema.optionalKey(ApprovalId),
        ...closedFilter
      },
      success: ClosedPage
    }).middleware(requires("approvals.read"))
  )
  .prefix(`${CONSOLE_PATH}/closed-approvals`)
  .middleware(RequestBody)
  .middleware(Authentication) {}
