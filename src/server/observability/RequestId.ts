import { Context } from "effect"

/** The id of the current request, as in its `x-request-id` header, in problem bodies, in the log and in the audit log. */
export const RequestId = Context.Reference<string>("countersign/server/observability/RequestId", {
  defaultValue: () => NO_REQUEST
})

/** The value of `RequestId` outside a request. */
export const NO_REQUEST = "req_none"
