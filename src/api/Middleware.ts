/**
 * What every operation runs in: the answer to malformed requests, oversize bodies, lost stores and our own faults, in one
 * place. Implemented by `server/Frame.ts`.
 */
import { ByteSize, Context, Fiber, Schema, type SchemaAST } from "effect"
import type { HttpServerRespondable } from "effect/http"
import { HttpApiMiddleware } from "effect/http-api"
import type { CurrentPrincipal } from "./Authorization.ts"
import type { FieldError } from "./Problem.ts"
import {
  IdempotencyKeyInUse,
  IdempotencyKeyReused,
  InternalError,
  InvalidRequest,
  PayloadTooLarge,
  Unavailable,
  UnsupportedMediaType
} from "./Problems.ts"

/** Around every operation: gives each problem its `request_id`, and turns what no service names into a problem. */
export class ProblemFrame extends HttpApiMiddleware.Service<ProblemFrame>()("countersign/api/ProblemFrame", {
  error: [InvalidRequest, Unavailable, InternalError]
}) {}

/** Reads a body once, after the key was checked: at most `BodyLimit` bytes of UTF-8 JSON, at most 64 levels deep, as I-JSON (RFC 7493) has it. */
export class RequestBody extends HttpApiMiddleware.Service<RequestBody>()("countersign/api/RequestBody", {
  error: [InvalidRequest, PayloadTooLarge, UnsupportedMediaType]
}) {}

/** How many more faults of this request are gathered; undefined: no limit. */
export const FieldErrorBudget = Context.Reference<{ count: number } | undefined>(
  "countersign/api/FieldErrorBudget",
  {
    defaultValue: () => undefined
  }
)

/**
 * Every fault of a request is gathered, so that a caller mends them all at once; but only while `FieldErrorBudget` lasts. A fault costs some
 * microseconds and a body has room for a million: past that the next one is the only one that is told.
 */
export const collectFieldErrors: SchemaAST.ParseOptions = {
  get errors() {
    const left = Fiber.getCurrent()?.getRef(FieldErrorBudget)
    return left === undefined || left.count-- > 0 ? "all" : "first"
  }
}

/** The most bytes a body may have: 1 MiB, unless an operation is annotated with more. */
export const BodyLimit = Context.Reference<ByteSize.ByteSize>("countersign/api/BodyLimit", {
  defaultValue: () => ByteSize.mebibytes(1)
})

/**
 * On every operation that creates: the same `Idempotency-Key` with the same body and API key gives the same answer for 24 hours,
 * also where the first request and its answer were cut off. Only success is kept: a refused request created nothing and may
 * be sent again.
 */
export class Idempotent extends HttpApiMiddleware.Service<
  Idempotent,
  { provides: never; requires: CurrentPrincipal }
>()("countersign/api/Idempotent", { error: [IdempotencyKeyReused, IdempotencyKeyInUse] }) {}

/** The header that `Idempotent` reads. */
export const idempotencyHeaders = {
  "idempotency-key": Schema.optionalKey(
    Schema.String.check(
      Schema.isMinLength(1),
      Schema.isMaxLength(255),
      Schema.isPattern(/^[\x21-\x7e]+$/u, { expected: "1 to 255 visible ASCII characters" })
    ).annotate({
      description:
        "The same key with the same request of the same API key gives the same answer for 24 hours; with another body, or of another API key of the organization, it is 409 `IDEMPOTENCY_KEY_REUSED`. A request that was refused leaves nothing behind: it may be sent again under its key."
    })
  )
}

/**
 * The body fields whose fault has a code of its own, by name: an operation annotated with this answers with that problem, not
 * with `INVALID_REQUEST`, when such a field alone is wrong.
 */
export class FieldProblems extends Context.Service<
  FieldProblems,
  Readonly<Record<string, (errors: ReadonlyArray<FieldError>) => HttpServerRespondable.Respondable>>
>()("countersign/api/FieldProblems") {}
