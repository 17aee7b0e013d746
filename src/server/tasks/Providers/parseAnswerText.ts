import { Result, Schema } from "effect"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"

const decode = Schema.decodeUnknownResult(Schema.fromJsonString(JsonObject))

/** The JSON object that a text is; `undefined` if it is none. */
export const parseAnswerText = (text: string): JsonObject | undefined => {
  const decoded = decode(text)
  return Result.isSuccess(decoded) ? decoded.success : undefined
}
