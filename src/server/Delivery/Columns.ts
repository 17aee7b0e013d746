import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"

/**
 * Arrays as parameters, with their type named. The client would guess it from the elements, and cannot from none, from
 * nulls alone, or from whole numbers mixed with others.
 */
const of =
  <A>(element: number) =>
  (values: ReadonlyArray<A | null>): PgTypes.Parameter =>
    Result.getOrThrow(PgTypes.array(values, element))

/** `text[]` */
export const texts = of<string>(PgTypes.OID.text)
/** `int4[]` */
export const ints = of<number>(PgTypes.OID.int4)
/** `float8[]` */
export const floats = of<number>(PgTypes.OID.float8)
/** `bool[]` */
export const booleans = of<boolean>(PgTypes.OID.bool)
/** `int8[]`, from numbers below 2^53. */
export const longs = (values: ReadonlyArray<number>): PgTypes.Parameter =>
  of<bigint>(PgTypes.OID.int8)(values.map(BigInt))
