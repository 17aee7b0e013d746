import type { Schema } from "effect"

/** Whether a JSON value is an array: `Array.isArray` itself does not narrow a readonly array. */
export const isJsonArray = (value: Schema.Json | undefined): value is Schema.JsonArray => Array.isArray(value)
