import { Schema } from "effect"

/** A name that people give things: 1 to 200 characters on one line. */
export const Name = Schema.String.check(
  Schema.isMinLength(1),
  Schema.isMaxLength(200),
  // oxlint-disable-next-line no-control-regex -- control characters are what is refused here
  Schema.isPattern(/^[^\u0000-\u001f\u007f]*$/, { expected: "text on one line, without control characters" })
)

/** What a person says beside a decision: at most 4,000 characters. */
export const Comment = Schema.String.check(Schema.isMaxLength(4_000))

/** Small facts of the caller's own: a JSON object. */
export const Metadata = Schema.Record(Schema.String, Schema.Json)
