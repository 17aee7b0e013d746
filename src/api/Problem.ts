import { Schema } from "effect"
import { HttpApiError } from "effect/http-api"

/** One field of a request that is at fault: a JSON Pointer (RFC 6901, in URI fragment form) and a sentence. */
export const FieldError = Schema.Struct({
  pointer: Schema.String.annotate({ examples: ["#/correction/items/1/qty"] }),
  detail: Schema.String
}).annotate({ identifier: "FieldError" })
export type FieldError = typeof FieldError.Type

const members = <Code extends string>(code: Code) => ({
  /** Stable and upper snake case: what a client switches on. */
  code: Schema.tag(code),
  /** The `x-request-id` of the answer. Given by the frame that every operation runs in, never by a service. */
  request_id: Schema.optionalKey(Schema.String),
  /** The fields at fault, where a field is. */
  errors: Schema.optionalKey(Schema.Array(FieldError))
})

type Members<Code extends string> = ReturnType<typeof members<Code>>

/**
 * Declares one error of the contract: a class whose instances are failed with (`yield* new NotFound({ detail })`) and
 * that reaches the caller as `application/problem+json` (RFC 9457) with its `code`, at its status. `detail` says what
 * to do about it and never holds a secret.
 */
export const problem =
  <Self>() =>
  <const Code extends string, const Status extends number, const Fields extends Schema.Struct.Fields = {}>(
    code: Code,
    status: Status,
    title: string,
    fields?: Fields
  ): HttpApiError.ProblemClass<
    Self,
    Code,
    `urn:problem-type:countersign:${Code}`,
    Status,
    Members<Code> & Fields,
    {}
  > =>
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `Problem` answers with a conditional type over `Self`, which stays open until a class is made
    HttpApiError.Problem<Self>()(
      code,
      { type: `urn:problem-type:countersign:${code}`, status, title },
      {
        ...members(code),
        ...fields
      }
    ) as never
