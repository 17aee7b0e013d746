import type { SqlClient } from "effect/sql"
import { foldCase } from "../store/foldCase.ts"
import { withMakers } from "./keyMakers.ts"
import { MAILBOX, mailboxSql } from "./mailbox.ts"

/**
 * SQL like `keyMakers`, for statements over `api_keys` whose row may stand for a person. The makers of a person are the keys and other
 * people with the same verified address, whatever its case, and their makers; those of a key are also the people with its address or with
 * that of a maker. One human being counts once in a quorum, and does not approve the requests of their keys.
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

/** The people with the verified address of a row of `api_keys`. */
const peopleOf = (key: string) => `
  SELECT people.key_id
  FROM api_keys AS own
    JOIN people ON people.org_id = own.org_id AND people.key_id = own.key_id
    JOIN email_addresses AS confirmed
      ON confirmed.org_id = own.org_id
      AND confirmed.address = ${mailboxSql("own.email")}
      AND confirmed.verified_at IS NOT NULL
  WHERE own.org_id = ${key}.org_id
    AND own.email IS NOT NULL
    AND ${foldCase("own.email")} = ${foldCase(`${key}.email`)}
    AND own.key_id <> ${key}.key_id`

const MAKERS = withMakers(
  `SELECT api_keys.created_by_id AS key_id UNION ${SAME_HUMAN} UNION ${peopleOf("api_keys")}`,
  `SELECT made.created_by_id AS key_id UNION ALL ${peopleOf("made")}`
)
