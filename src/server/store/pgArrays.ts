import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"
import type { Timestamp } from "../../domain/Time.ts"

/**
 * Array parameters with an explicit element type. The client infers the type from the elements, which fails for an empty array, for nulls
 * only, and for a mix of whole numbers and others.
 */
const arrayOf =
  (element: number) =>
  (values: ReadonlyArray<unknown>): PgTypes.Parameter =>
    Result.getOrThrow(PgTypes.array(values, element))

type Column<A> = (values: ReadonlyArray<A | null>) => PgTypes.Parameter

/** `text[]` */
export const textArray: Column<string> = arrayOf(PgTypes.OID.text)
/** `int4[]` */
export const int4Array: Column<number> = arrayOf(PgTypes.OID.int4)
/** `float8[]` */
export const float8Array: Column<number> = arrayOf(PgTypes.OID.float8)
/** `bool[]` */
export const boolArray: Column<boolean> = arrayOf(PgTypes.OID.bool)
/** `int8[]`, from numbers below 2^53 or bigints of 64 bits. */
export const int8Array = (values: ReadonlyArray<number | bigint>): PgTypes.Parameter =>
  arrayOf(PgTypes.OID.int8)(values.map(BigInt))
/** `bytea[]` */
export const byteaArray: Column<Uint8Array> = arrayOf(PgTypes.OID.bytea)
/** `timestamptz[]` */
export const timestamptzArray = (values: ReadonlyArray<Timestamp | null>): PgTypes.Parameter =>
  arrayOf(PgTypes.OID.timestamptz)(values.map((at) => (at === null ? null : at.epochMilliseconds)))
