/** JSON as people write it into a field. */
import { Result, Schema } from "effect"
import { JsonObject } from "../../domain/tasks/Dataset.ts"

const isJsonObject = Schema.is(JsonObject)

/** The value of a text, or why it is none. */
export const parseJson = (text: string): Result.Result<unknown, string> => {
  try {
    const value: unknown = JSON.parse(text)
    return Result.succeed(value)
  } catch (error) {
    // The parser's own words name the line and the column.
    return Result.fail(`This is not JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** The object of a text, or why there is none. */
export const parseJsonObject = (text: string): Result.Result<JsonObject, string> =>
  Result.flatMap(parseJson(text), (value) =>
    isJsonObject(value) ? Result.succeed(value) : Result.fail("This is JSON, but no object: { … }")
  )

/** A value as it is written into a field. */
export const formatJson = (value: Schema.Json): string => JSON.stringify(value, null, 2)
