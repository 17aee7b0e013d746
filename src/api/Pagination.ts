import { Schema, SchemaGetter } from "effect"

/** An identifier that a list is ordered by. */
type Id = Schema.Codec<string, string>

/** An opaque cursor on the wire; within the code the identifier that the last page ended with. */
const cursor = <S extends Id>(id: S) =>
  Schema.String.pipe(
    Schema.decodeTo(id, {
      decode: SchemaGetter.decodeBase64UrlString(),
      encode: SchemaGetter.encodeBase64Url()
    })
  ).annotate({ description: "Where the last page ended: its `next_cursor`, unchanged" })

/** The items of a page when the query names no limit. */
export const DEFAULT_LIMIT = 50

/** The query of a list: how many, and from where on. Lists are newest first. */
export const pageQuery = <S extends Id>(id: S) => ({
  limit: Schema.optionalKey(
    Schema.Int.check(
      Schema.isBetween({ minimum: 1, maximum: 100 }, { expected: "a whole number from 1 to 100" })
    )
  ),
  cursor: Schema.optionalKey(cursor(id))
})

/** What a list's query asks of a service. */
export interface PageRequest<Id extends string> {
  readonly limit?: number
  readonly cursor?: Id
}

/** A list's answer: the items under their noun, and where to go on; null at the end. */
export const page = <const Noun extends string, Item extends Schema.Constraint, S extends Id>(
  noun: Noun,
  item: Item,
  id: S
) =>
  Schema.Struct({
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a computed key widens to `string`; the noun is the one key
    ...({ [noun]: Schema.Array(item) } as { readonly [N in Noun]: Schema.$Array<Item> }),
    next_cursor: Schema.NullOr(cursor(id))
  })
