import { Schema, type SchemaAST } from "effect"

/**
 * Keywords of JSON Schema for the API reference alone: for what a response fulfils anyway, and for what is checked elsewhere, with an error of
 * its own.
 */
export const documented = <T>(keywords: Schema.JsonObject): SchemaAST.Filter<T> =>
  Schema.makeFilter<T>(() => true, { toJsonSchema: () => [keywords, true] })
