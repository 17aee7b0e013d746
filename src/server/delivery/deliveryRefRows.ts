import type { SqlClient, Statement } from "effect/sql"
import type { DeliveryRef } from "./Channel.ts"
import { textArray } from "../store/pgArrays.ts"

/** Delivery references as rows of a statement: `i (org_id, destination_id, event_id, number)`, numbered from 1. */
export const deliveryRefRows = (
  sql: SqlClient.SqlClient,
  refs: ReadonlyArray<DeliveryRef>
): Statement.Fragment => sql`
  unnest(
    ${textArray(refs.map(({ org_id }) => org_id))}::text[],
    ${textArray(refs.map(({ destination_id }) => destination_id))}::text[],
    ${textArray(refs.map(({ event_id }) => event_id))}::text[]
  ) WITH ORDINALITY AS i (org_id, destination_id, event_id, number)
`
