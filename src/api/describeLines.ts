import { Schema } from "effect"
import type { OpenApi } from "effect/http-api"
import { record, SCHEMAS } from "./openApiDocument/node.ts"
import { DEFAULT_LIMIT, MAX_LIMIT, page, pageQuery } from "./Pagination.ts"

type Transform = NonNullable<Parameters<typeof OpenApi.annotations>[0]["transform"]>

/** The query of an operation whose lines can also be read in pages of JSON. */
export const linesQuery = <S extends Schema.Codec<string, string>>(id: S) => {
  const { cursor, limit } = pageQuery(id)
  return {
    limit: limit.annotateKey({
      description: `The most items, 1 to ${MAX_LIMIT}. Default: ${DEFAULT_LIMIT} in a page of JSON, all as JSON Lines.`
    }),
    cursor
  }
}

/**
 * Describes the response of an operation that streams JSON Lines: the library's description is that of any stream. With
 * `accept: application/json` the response is a page, whose items are under \`noun\`, or what \`json\` describes.
 */
export const describeLines =
  (
    description: string,
    json: { readonly noun: string; readonly order?: "newest" | "oldest" } | { readonly component: string }
  ): Transform =>
  (operation) => {
    const { "200": streamed, ...others } = operation["responses"] ?? {}
    const { schema: line } = streamed.content["application/x-ndjson"]
    const schema = "noun" in json ? pageOf(json, line) : { $ref: SCHEMAS + json.component }
    // Generators of code take the first type.
    const content = { "application/json": { schema }, ...streamed.content }
    return {
      ...operation,
      description: `${operation["description"]}\n\nThe response is JSON Lines, or with \`accept: application/json\` one JSON body.`,
      responses: { "200": { ...streamed, content, description }, ...others }
    }
  }

/** The schema of a page of lines. */
const pageOf = (
  { noun, order = "newest" }: { readonly noun: string; readonly order?: "newest" | "oldest" },
  line: unknown
): object => {
  const schema = record(Schema.toJsonSchemaDocument(page(noun, Schema.Null, Schema.String)).schema)
  const properties = record(schema["properties"])
  return {
    ...schema,
    description: `One page, ${order} first.`,
    properties: {
      ...properties,
      [noun]: {
        ...record(properties[noun]),
        description: `The items of this page, ${order} first.`,
        items: line
      }
    }
  }
}
