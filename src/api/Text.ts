import { Schema } from "effect"
import { isVisibleLine } from "../domain/VisibleText.ts"

/** A name that people give things: 1 to 200 characters on one line, all of them visible. */
export const Name = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200), isVisibleLine)

/** What a person says beside a decision: at most 4,000 characters. */
export const Comment = Schema.String.check(Schema.isMaxLength(4_000))

/** The most characters that metadata may have as JSON: a page of a list holds a hundred of them. */
const MAX_METADATA = 16_384

/** Small facts of the caller's own: a JSON object of at most 16,384 characters. */
export const Metadata = Schema.Record(Schema.String, Schema.Json).check(
  Schema.makeFilter((metadata) => JSON.stringify(metadata).length <= MAX_METADATA, {
    expected: "at most 16384 characters of JSON"
  })
)
