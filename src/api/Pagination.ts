import { Schema, SchemaGetter, SchemaTransformation } from "effect"
import { documented } from "../domain/documented.ts"

/** An identifier that a list is ordered by. */
type Id = Schema.Codec<string, string>

/** The letters of a keyset cursor: base64url. */
const CURSOR = /^[0-9A-Za-z_-]{1,200}$/u

/** A keyset cursor: opaque on the wire; in code, the last identifier of the previous page. */
export const cursor = <S extends Id>(id: S, description: string) =>
  Schema.String.annotate({ description })
    .check(Schema.isPattern(CURSOR, { expected: "the `next_cursor` of a page of this list" }))
    .pipe(
      Schema.decodeTo(id.annotate({ message: "Expected the `next_cursor` of a page of this list" }), {
        decode: SchemaGetter.decodeBase64UrlString(),
        encode: SchemaGetter.encodeBase64Url()
      })
    )

/** The pattern of a cursor that is a number: decimal digits. */
export const NUMBER_CURSOR = "^(?:0|[1-9][0-9]{0,15})$"

/** A cursor that is the number of the last item that the client received; 0 if none. On the wire: decimal digits only. */
export const numberCursor = (description: string, expected: string) =>
  Schema.String.annotate({ description })
    .check(Schema.isPattern(new RegExp(NUMBER_CURSOR, "u"), { expected }))
    .pipe(Schema.decodeTo(Schema.Int, SchemaTransformation.numberFromString))

/** Items per page if the query names no limit. */
export const DEFAULT_LIMIT = 50

/** Most items per page. */
export const MAX_LIMIT = 100

/** The query of a list, which is newest first. */
export const pageQuery = <S extends Id>(id: S) => ({
  limit: Schema.optionalKey(
    Schema.Int.check(
      Schema.isBetween(
        { minimum: 1, maximum: MAX_LIMIT },
        { expected: `a whole number from 1 to ${MAX_LIMIT}` }
      )
    )
  ).annotateKey({ description: `Items per page, 1 to ${MAX_LIMIT}. Default ${DEFAULT_LIMIT}.` }),
  cursor: Schema.optionalKey(
    cursor(id, "Where to continue: the `next_cursor` of the previous page. Absent for the first page.")
  )
})

/** A list's query, as a service receives it. */
export interface PageRequest<Id extends string> {
  readonly limit?: number
  readonly cursor?: Id
}

/** A page of a list: the items under their noun, and the cursor of the next page. */
export const page = <const Noun extends string, Item extends Schema.Constraint, S extends Id>(
  noun: Noun,
  item: Item,
  id: S
) =>
  Schema.Struct({
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a computed key widens to `string`; the noun is the one key
    ...({
      [noun]: Schema.Array(item)
        .check(documented({ maxItems: MAX_LIMIT }))
        .annotateKey({ description: "The items of this page, newest first." })
    } as { readonly [N in Noun]: Schema.$Array<Item> }),
    next_cursor: Schema.NullOr(cursor(id, "An opaque cursor.")).annotateKey({
      description: "Pass it as `cursor` to get the next page. Null on the last page."
    })
  }).annotate({ description: "One page of the list, newest first." })
