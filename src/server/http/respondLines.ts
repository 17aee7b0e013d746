import { Effect, Option, Schema, Stream } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { DEFAULT_LIMIT } from "../../api/Pagination.ts"
import { type ExportedLine, MAX_PAGE_BYTES } from "../store/Pagination.ts"
import { weightsOf } from "./preferredEncoding.ts"

/** Whether the request names JSON, and JSON Lines with no higher weight. Clients that accept anything get JSON Lines. */
const acceptsJson = Effect.map(HttpServerRequest.HttpServerRequest, ({ headers }) => {
  const weights = weightsOf(headers["accept"] ?? "")
  const json = weights.get("application/json") ?? 0
  return json > 0 && json >= (weights.get("application/x-ndjson") ?? 0)
})

const jsonText = (text: string) => HttpServerResponse.text(text, { contentType: "application/json" })

/**
 * Responds with lines of an export, which start after the cursor of the request: as JSON Lines, or as a page of JSON if the client
 * accepts that, within `MAX_PAGE_BYTES`. Positions without a line count towards the limit, so that a page ends.
 */
export const respondLines = <A, I>(noun: string, schema: Schema.Codec<A, I>) => {
  const encode = Schema.encodeSync(Schema.fromJsonString(Schema.toCodecJson(schema)))
  return Effect.fnUntraced(function* (
    lines: Stream.Stream<ExportedLine<A>>,
    { limit }: { readonly limit?: number | undefined }
  ) {
    if (!(yield* acceptsJson)) {
      const taken = limit === undefined ? lines : Stream.take(lines, limit)
      return taken.pipe(
        Stream.map(({ line }) => line),
        Stream.filter(Option.isSome),
        Stream.map(({ value }) => value)
      )
    }
    const texts: Array<string> = []
    let bytes = 0
    let count = 0
    let last = ""
    let next: string | null = null
    yield* Stream.runForEachWhile(lines, ({ id, line }) =>
      Effect.sync(() => {
        const text = Option.map(line, encode)
        const added = Option.match(text, { onNone: () => 0, onSome: (one) => Buffer.byteLength(one) })
        if (count === (limit ?? DEFAULT_LIMIT) || (count > 0 && bytes + added > MAX_PAGE_BYTES)) {
          next = Buffer.from(last).toString("base64url")
          return false
        }
        if (Option.isSome(text)) texts.push(text.value)
        bytes += added
        count++
        last = id
        return true
      })
    )
    return jsonText(`{"${noun}":[${texts.join(",")}],"next_cursor":${JSON.stringify(next)}}`)
  })
}

/** Responds with lines as JSON Lines, or with a summary of all of them as JSON if the client accepts that. */
export const respondSummary = <A, B, I>(
  schema: Schema.Codec<B, I>,
  summarize: (lines: ReadonlyArray<A>) => unknown
) => {
  const encode = Schema.encodeUnknownSync(Schema.fromJsonString(Schema.toCodecJson(schema)))
  return Effect.fnUntraced(function* (lines: Stream.Stream<A>) {
    if (!(yield* acceptsJson)) return lines
    return jsonText(encode(summarize(yield* Stream.runCollect(lines))))
  })
}
