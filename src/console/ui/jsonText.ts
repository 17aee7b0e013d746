/** Parsing and formatting of JSON in form fields. */
import { Result, Schema } from "effect"
import { JsonValue } from "../../domain/json/JsonValue.ts"
import { JsonObject } from "../../domain/tasks/Dataset.ts"

const isJsonObject = Schema.is(JsonObject)

/** Parses JSON. Fails with a message that can be shown at the field. */
export const parseJson = (text: string): Result.Result<unknown, string> => {
  try {
    const value: unknown = JSON.parse(text)
    return Result.succeed(value)
  } catch (error) {
    // The parser's message names the position.
    return Result.fail(`Invalid JSON:  ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** Parses a JSON object. Fails with a message that can be shown at the field. */
export const parseJsonObject = (text: string): Result.Result<JsonObject, string> =>
  Result.flatMap(parseJson(text), (value) =>
    isJsonObject(value) ? Result.succeed(value) : Result.fail("Must be a JSON object: { … }")
  )

const decodeJson = Schema.decodeUnknownResult(Schema.fromJsonString(JsonValue))

/** A value from the JSON text of a record; undefined if there is none. */
export const parseStored = (text: string | null): Schema.Json | undefined =>
  text === null ? undefined : Result.getOrUndefined(decodeJson(text))

/** Formats a JSON value for editing. */
export const formatJson = (value: Schema.Json): string => JSON.stringify(value, null, 2)
