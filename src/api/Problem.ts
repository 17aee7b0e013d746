import { Schema } from "effect"
import { HttpApiError } from "effect/http-api"

export const FieldError = Schema.Struct({
  pointer: Schema.String.annotate({ examples: ["#/correction/items/1/qty"] }).annotateKey({
    description:
      "JSON Pointer to the field, in URI fragment form (RFC 6901). For a missing or unexpected field it points to that field."
  }),
  detail: Schema.String.annotateKey({
    description: "What is wrong with the field. Never contains the value."
  })
}).annotate({ identifier: "FieldError", description: "One invalid field of a request." })
export type FieldError = typeof FieldError.Type

const members = <Code extends string>(code: Code) => ({
  code: Schema.tag(code).annotateKey({
    description: "Stable code of the problem, in upper snake case. Branch on this."
  }),
  // Set by the middleware around every operation, never by a service.
  request_id: Schema.optionalKey(Schema.String).annotateKey({
    description: "ID of the request, also in the header `x-request-id`. Include it when you report a problem."
  }),
  errors: Schema.optionalKey(Schema.Array(FieldError)).annotateKey({
    description: "The invalid fields, if the problem is about fields."
  })
})

type Members<Code extends string> = ReturnType<typeof members<Code>>

/**
 * Declares one problem of the API: a class to fail with (`yield* new NotFound({ detail })`), sent as `application/problem+json`
 * (RFC 9457) with its `code` and status. `title` is a phrase without a period. `description` is for the reference. `detail`, given per
 * instance, is full sentences: what happened, then what to do. It never contains a secret.
 */
export const problem =
  <Self>() =>
  <const Code extends string, const Status extends number, const Fields extends Schema.Struct.Fields = {}>(
    code: Code,
    status: Status,
    title: string,
    description: string,
    fields?: Fields
  ): HttpApiError.ProblemClass<
    Self,
    Code,
    `urn:problem-type:countersign:${Code}`,
    Status,
    Members<Code> & Fields,
    {}
  > => {
    const declared = HttpApiError.Problem<Self>()(
      code,
      { type: `urn:problem-type:countersign:${code}`, status, title },
      {
        ...members(code),
        ...fields
      },
      { description }
    )
    // The library prints the members alone.
    if (typeof declared === "function") {
      Object.defineProperty(declared.prototype, INSPECT, { value: returnThis })
    }
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the library's return type is conditional on `Self`, which is unknown until a class is declared
    return declared as never
  }

/** Node prints an error with its class, stack and members if this method returns the error itself. */
const INSPECT = Symbol.for("nodejs.util.inspect.custom")

function returnThis<A>(this: A): A {
  return this
}
