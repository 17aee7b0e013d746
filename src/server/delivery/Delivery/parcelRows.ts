import type { SqlClient, Statement } from "effect/sql"
import type { Parcel } from "./Channel.ts"
import { textArray } from "../../store/pgArrays.ts"

/** Parcels as rows of a statement: `i (org_id, destination_id, event_id, number)`, numbered from 1. */
export const parcelRows = (
  sql: SqlClient.SqlClient,
  parcels: ReadonlyArray<Parcel>
): Statement.Fragment => sql`
  unnest(
    ${textArray(parcels.map(({ org_id }) => org_id))}::text[],
    ${textArray(parcels.map(({ destination_id }) => destination_id))}::text[],
    ${textArray(parcels.map(({ event_id }) => event_id))}::text[]
  ) WITH ORDINALITY AS i (org_id, destination_id, event_id, number)
`
