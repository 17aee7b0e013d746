import type { Schema } from "effect"
import type { OpenApi } from "effect/http-api"
import { SCHEMAS } from "./openApiDocument/node.ts"
import { DEFAULT_LIMIT, MAX_LIMIT, pageQuery } from "./Pagination.ts"

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
 * The member of a schema that stands for a page of lines until `openApiDocument` writes the page. Its value has the member of the items,
 * their order and the schema of a line.
 */
export const PAGE_OF_LINES = "x-page-of-lines"

/**
 * Describes the response of an operation that streams JSON Lines: the library's description is that of any stream. With
 * `accept: application/json` the response is a page, whose items are under `noun`, or what `json` describes.
 */
export const describeLines =
  (
    description: string,
    json: { readonly noun: string; readonly order?: "newest" | "oldest" } | { readonly component: string }
  ): Transform =>
  (operation) => {
    const { "200": streamed, ...others } = operation["responses"] ?? {}
    const { schema: line } = streamed.content["application/x-ndjson"]
    const schema =
      "noun" in json
        ? { [PAGE_OF_LINES]: { order: "newest", ...json, line } }
        : { $ref: SCHEMAS + json.component }
    // Generators of code take the first type.
    const content = { "application/json": { schema }, ...streamed.content }
    return {
      ...operation,
      description: `${operation["description"]}\n\nThe response is JSON Lines, or with \`accept: application/json\` one JSON body.`,
      responses: { "200": { ...streamed, content, description }, ...others }
    }
  }
