import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"
import type { Timestamp } from "../../domain/Time.ts"

/**
 * Arrays as parameters, with their type named. The client would guess it from the elements, and cannot from none, from
 * nulls alone, or from whole numbers mixed with others.
 */
const of =
  (element: number) =>
  (values: ReadonlyArray<unknown>): PgTypes.Parameter =>
    Result.getOrThrow(PgTypes.array(values, element))

type Column<A> = (values: ReadonlyArray<A | null>) => PgTypes.Parameter

/** `text[]` */
export const textArray: Column<string> = of(PgTypes.OID.text)
/** `int4[]` */
export const int4Array: Column<number> = of(PgTypes.OID.int4)
/** `float8[]` */
export const float8Array: Column<number> = of(PgTypes.OID.float8)
/** `bool[]` */
export const boolArray: Column<boolean> = of(PgTypes.OID.bool)
/** `int8[]`, from numbers below 2^53 or bigints of 64 bits. */
export const int8Array = (values: ReadonlyArray<number | bigint>): PgTypes.Parameter =>
  of(PgTypes.OID.int8)(values.map(BigInt))
/** `bytea[]` */
export const byteaArray: Column<Uint8Array> = of(PgTypes.OID.bytea)
/** `timestamptz[]` */
export const timestamptzArray = (values: ReadonlyArray<Timestamp | null>): PgTypes.Parameter =>
  of(PgTypes.OID.timestamptz)(values.map((at) => (at === null ? null : at.epochMilliseconds)))
