import { Context } from "effect"

/** The facts of the current request for the log; filled in on the way to the handler. */
export interface RequestFacts {
  /** The operation, such as `sessions.create`; null outside the API. */
  operation: string | null
  /** The path's template, such as `/v1/agent-sessions/:id`; null: an unknown path. */
  route: string | null
  org_id: string | null
  key_id: string | null
  /** Whether the request waits for a person or a model, so that it is never slow. */
  waits: boolean
}

/** The facts of the current request; undefined outside a request, and if requests are not logged. */
export const CurrentRequestFacts = Context.Reference<RequestFacts | undefined>(
  "countersign/server/observability/RequestFacts",
  { defaultValue: () => undefined }
)
