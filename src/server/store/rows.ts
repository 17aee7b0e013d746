import { Effect, Schema } from "effect"
import { nextTurn } from "../admission/LoopTurns.ts"
import { compileRowDecoder } from "./rows/compileRowDecoder.ts"

/** From this number of rows, decoding them and the code that follows run in a turn of their own: see `LoopTurns`. */
const MANY_ROWS = 16

/** Reads the rows of a statement through a schema. */
export interface Rows<A> {
  /** Every row, in the statement's order. */
  readonly all: <E, R>(
    statement: Effect.Effect<ReadonlyArray<unknown>, E, R>
  ) => Effect.Effect<ReadonlyArray<A>, E, R>
  /** The first row, or `undefined` if there is none. */
  readonly first: <E, R>(
    statement: Effect.Effect<ReadonlyArray<unknown>, E, R>
  ) => Effect.Effect<A | undefined, E, R>
}

/**
 * Decodes rows by `schema`. A row that does not decode is a defect: this service wrote it. Checks (lengths, patterns, bounds) are not run
 * again, because they held when the row was written; types and brands are decoded.
 */
export const rowsOf = <A, I>(schema: Schema.Codec<A, I>): Rows<A> => {
  const decode = compileRowDecoder(schema)
  const decodeBySchema = Schema.decodeUnknownEffect(Schema.Array(schema), { disableChecks: true })
  const decodeAll = (rows: ReadonlyArray<unknown>): Effect.Effect<ReadonlyArray<A>> =>
    Effect.suspend(() => {
      const decoded = decode(rows)
      return decoded === undefined ? Effect.orDie(decodeBySchema(rows)) : Effect.succeed(decoded)
    })
  const all: Rows<A>["all"] = (statement) =>
    Effect.flatMap(statement, (rows) =>
      rows.length < MANY_ROWS ? decodeAll(rows) : Effect.andThen(nextTurn, decodeAll(rows))
    )
  return { all, first: (statement) => Effect.map(all(statement), (rows) => rows[0]) }
}

/** Whether a statement returns a row. */
export const hasRow = <E, R>(
  statement: Effect.Effect<ReadonlyArray<unknown>, E, R>
): Effect.Effect<boolean, E, R> => Effect.map(statement, (rows) => rows.length > 0)

/** The `count` that a statement returns; 0 without a row. */
export const countOf = <E, R>(
  statement: Effect.Effect<ReadonlyArray<{ readonly count: number }>, E, R>
): Effect.Effect<number, E, R> => Effect.map(statement, (rows) => rows[0]?.count ?? 0)
