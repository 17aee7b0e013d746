import { Schema } from "effect"
import { JsonValue } from "../../domain/json/JsonValue.ts"

/** Parses stored arguments of a step. Throws if the text is not JSON, which is a defect. */
export const parseArguments = Schema.decodeUnknownSync(Schema.fromJsonString(JsonValue))
