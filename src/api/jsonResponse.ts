import { Effect, type Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { compileJsonEncoder } from "../domain/json/compileJsonEncoder.ts"

/**
 * Makes the response of an operation that returns many items. Its schema is compiled once, because interpreting it for
 * each item takes ten times as long. A value that the compiled encoder does not accept is returned unchanged, so that
 * the operation's own encoder reports why.
 */
export const jsonResponse = <A, I>(
  schema: Schema.Codec<A, I>
): ((value: A) => Effect.Effect<HttpServerResponse.HttpServerResponse | A>) => {
  const encode = compileJsonEncoder(schema)
  return (value) =>
    Effect.sync(() => {
      const text = encode(value)
      return text === undefined ? value : HttpServerResponse.text(text, { contentType: "application/json" })
    })
}
