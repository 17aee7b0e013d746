import { Schema, type SchemaAST } from "effect"

/**
 * JSON Schema keywords for the API reference only: for guarantees of responses, and for rules of requests that are
 * checked elsewhere, with an error code of their own.
 */
export const documented = <T>(keywords: Schema.JsonObject): SchemaAST.Filter<T> =>
  Schema.makeFilter<T>(() => true, { toJsonSchema: () => [keywords, true] })
