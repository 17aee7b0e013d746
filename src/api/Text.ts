import { Schema } from "effect"
import { isVisibleLine } from "../domain/VisibleText.ts"

/** A name that people give things: 1 to 200 characters on one line, all of them visible. */
export const Name = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200), isVisibleLine)

/** What a person says beside a decision: at most 4,000 characters. */
export const Comment = Schema.String.check(Schema.isMaxLength(4_000))

/** Small facts of the caller's own: a JSON object. */
export const Metadata = Schema.Record(Schema.String, Schema.Json)
