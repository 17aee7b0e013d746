import { Effect, Exit, Request, RequestResolver } from "effect"
import type { SqlClient, SqlError, Statement } from "effect/sql"
import type { Parcel } from "./Channel.ts"
import { texts } from "./Columns.ts"

/** Parcels as rows of a statement: `i (org_id, destination_id, event_id, number)`, numbered from 1. */
export const parcelRows = (
  sql: SqlClient.SqlClient,
  parcels: ReadonlyArray<Parcel>
): Statement.Fragment => sql`
  unnest(
    ${texts(parcels.map(({ org_id }) => org_id))}::text[],
    ${texts(parcels.map(({ destination_id }) => destination_id))}::text[],
    ${texts(parcels.map(({ event_id }) => event_id))}::text[]
  ) WITH ORDINALITY AS i (org_id, destination_id, event_id, number)
`

interface Load<Row> extends Request.Request<Row, SqlError.SqlError> {
  readonly parcel: Parcel
}

/**
 * Reads what attempts are made of: those that start at the same moment in one statement, `atOnce` of them at most. `read` answers
 * with one row for each parcel, whose `number` is that of `parcelRows`.
 */
export const readTogether = <Row extends { readonly number: number }>(
  read: (parcels: ReadonlyArray<Parcel>) => Effect.Effect<ReadonlyArray<Row>, SqlError.SqlError>,
  atOnce: number
): ((parcel: Parcel) => Effect.Effect<Row, SqlError.SqlError>) => {
  const make = Request.of<Load<Row>>()
  const resolver = RequestResolver.make<Load<Row>>((entries) =>
    Effect.matchCauseEffect(read(entries.map(({ request }) => request.parcel)), {
      onSuccess: (rows) =>
        Effect.sync(() => {
          for (const row of rows) entries[row.number - 1]?.completeUnsafe(Exit.succeed(row))
        }),
      onFailure: (cause) =>
        Effect.sync(() => {
          for (const entry of entries) entry.completeUnsafe(Exit.failCause(cause))
        })
    })
  ).pipe(RequestResolver.batchN(atOnce))
  return (parcel) => Effect.request(make({ parcel }), resolver)
}
