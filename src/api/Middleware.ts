/** The middleware of every operation, and the annotations that configure it. Implemented in `server/http`. */
import { ByteSize, Context, Fiber, Schema, type SchemaAST } from "effect"
import type { HttpServerRespondable } from "effect/http"
import { HttpApi, HttpApiMiddleware } from "effect/http-api"
import type { CurrentPrincipal } from "./Authorization.ts"
import type { FieldError } from "./Problem.ts"
import {
  IdempotencyKeyInUse,
  IdempotencyKeyReused,
  InternalError,
  InvalidRequest,
  PayloadTooLarge,
  RateLimited,
  Unavailable,
  UnsupportedMediaType
} from "./Problems.ts"

/**
 * Wraps every operation: sets `request_id` on each problem, and turns malformed requests, database failures and unexpected errors into
 * problems.
 */
export class ProblemFrame extends HttpApiMiddleware.Service<ProblemFrame>()("countersign/api/ProblemFrame", {
  error: [InvalidRequest, Unavailable, InternalError]
}) {}

/**
 * Reads the body once, after the key and its scope were checked: at most `BodyLimit` bytes of UTF-8 I-JSON (RFC 7493),
 * with at most 64 levels of nesting, 100,000 values and 20,000 different member names. The large bodies of an
 * organization wait for each other.
 */
export class RequestBody extends HttpApiMiddleware.Service<RequestBody>()("countersign/api/RequestBody", {
  error: [InvalidRequest, PayloadTooLarge, UnsupportedMediaType, RateLimited]
}) {}

/**
 * Refuses a body whose names, reasons, templates, descriptions or metadata contain a credential of the organization, an API key or a secret of a
 * recognizable kind.
 */
export class CredentialFree extends HttpApiMiddleware.Service<
  CredentialFree,
  { provides: never; requires: CurrentPrincipal }
>()("countersign/api/CredentialFree", { error: [InvalidRequest] }) {}

/** How many more field errors to collect for this request; undefined means no limit. */
export const FieldErrorBudget = Context.Reference<{ count: number } | undefined>(
  "countersign/api/FieldErrorBudget",
  {
    defaultValue: () => undefined
  }
)

/**
 * Collects all field errors of a request, so that a client can fix them in one go, until `FieldErrorBudget` is used up; after that only the
 * first one. Each error costs some microseconds, and a body can contain a million.
 */
export const collectFieldErrors: SchemaAST.ParseOptions = {
  get errors() {
    const left = Fiber.getCurrent()?.getRef(FieldErrorBudget)
    return left === undefined || left.count-- > 0 ? "all" : "first"
  }
}

/**
 * Refuses query parameters, and members of a body at any depth, that the schema does not have: of a misspelled optional one, the caller would
 * lose the content or the protection without notice.
 */
const refuseUnknown: SchemaAST.ParseOptions = {
  onExcessProperty: "error",
  get errors() {
    return collectFieldErrors.errors
  }
}

/** How the requests of an API are decoded. */
export const requestParsing = HttpApi.ParseOptions.context(collectFieldErrors).pipe(
  Context.add(HttpApi.QueryParseOptions, refuseUnknown),
  Context.add(HttpApi.PayloadParseOptions, refuseUnknown)
)

/** Annotates an operation whose body another vendor defines, and may extend: its unknown members are ignored. */
export const foreignBody = HttpApi.PayloadParseOptions.context(collectFieldErrors)

/** Largest body in bytes: 1 MiB unless an operation is annotated otherwise. */
export const BodyLimit = Context.Reference<ByteSize.ByteSize>("countersign/api/BodyLimit", {
  defaultValue: () => ByteSize.mebibytes(1)
})

/** Whether an operation waits for models or collectors by design, so that its duration says nothing about the service. */
export const WaitsByDesign = Context.Reference<boolean>("countersign/api/WaitsByDesign", {
  defaultValue: () => false
})

/**
 * For operations that create: a request repeated with the same `idempotency-key`, body and API key returns the first response for 24 hours,
 * even if the connection broke before the client received it. Only successful responses are stored; a rejected request created nothing and
 * can be sent again under its key.
 */
export class Idempotent extends HttpApiMiddleware.Service<
  Idempotent,
  { provides: never; requires: CurrentPrincipal }
>()("countersign/api/Idempotent", { error: [IdempotencyKeyReused, IdempotencyKeyInUse] }) {}

/** Whether an operation without `Idempotent` is repeatable under an `idempotency-key`, so that clients send one of their own and retry it. */
export const RepeatableByKey = Context.Reference<boolean>("countersign/api/RepeatableByKey", {
  defaultValue: () => false
})

/** The header that `Idempotent` reads. */
export const idempotencyHeaders = {
  "idempotency-key": Schema.optionalKey(
    Schema.String.check(
      Schema.isMinLength(1),
      Schema.isMaxLength(255),
      Schema.isPattern(/^[!-~]+$/u, { expected: "1 to 255 visible ASCII characters" })
    ).annotate({
      description:
        "A unique value of your choice, such as a UUID: 1 to 255 visible ASCII characters. Repeating the request with the same key and body returns the first response for 24 hours instead of creating again. With another body, or from another API key of the organization, it fails with 409 `IDEMPOTENCY_KEY_REUSED`. A request that failed can be repeated under its key."
    })
  )
}

/**
 * Body fields with an error code of their own, by name. If such a field is invalid, the operation fails with the
 * problem made here instead of `INVALID_REQUEST`.
 */
export class FieldProblems extends Context.Service<
  FieldProblems,
  Readonly<Record<string, (errors: ReadonlyArray<FieldError>) => HttpServerRespondable.Respondable>>
>()("countersign/api/FieldProblems") {}
