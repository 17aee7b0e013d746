import type { SqlClient } from "effect/sql"
import { foldCase } from "../store/foldCase.ts"
import { withMakers } from "./keyMakers.ts"
import { MAILBOX } from "./mailbox.ts"

/**
 * SQL like `keyMakers`, for statements over `api_keys` whose row may stand for a person. The makers of a person are the keys and other
 * people with the same verified address, whatever its case, and their makers. One human being counts once in a quorum, and does not approve
 * the requests of their keys.
 */
export const identityMakers = (sql: SqlClient.SqlClient) => sql.literal(MAKERS)

/** SQL of the keys and other people that are the same human being as the person of a row of `api_keys`. */
export const sameHuman = (sql: SqlClient.SqlClient) => sql.literal(`ARRAY(${SAME_HUMAN})`)

const SAME_HUMAN = `
  SELECT own.key_id
  FROM people
    JOIN email_addresses AS confirmed
      ON confirmed.org_id = people.org_id
      AND confirmed.address = ${MAILBOX}
      AND confirmed.verified_at IS NOT NULL
    JOIN api_keys AS own
      ON own.org_id = people.org_id
      AND own.email IS NOT NULL
      AND ${foldCase("own.email")} = ${foldCase("api_keys.email")}
      AND own.key_id <> people.key_id
  WHERE people.org_id = api_keys.org_id
    AND people.key_id = api_keys.key_id`

const MAKERS = withMakers(`
    SELECT first.key_id
    FROM (
      SELECT api_keys.created_by_id AS key_id
      UNION
      ${SAME_HUMAN}
    ) AS first`)
