import { Array as Arr, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type ApprovalMessage, MAX_MESSAGES, MessageSender } from "../../domain/approvals/ApprovalMessage.ts"
import { type ApprovalId, KeyId, type OrgId } from "../../domain/Ids.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../domain/Time.ts"
import { rowsOf } from "../store/rows.ts"
import type { ApprovalRow } from "./approvalRows.ts"

const messageRows = rowsOf(
  Schema.Struct({
    number: Schema.Int,
    sender: MessageSender,
    sent_by_id: KeyId,
    sent_by_name: Schema.String,
    sent_at: TimestampFromDate,
    text: Schema.String
  })
)

/** The messages of an approval after a number, oldest first. */
export const listMessages = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: ApprovalId,
  after: number
): Effect.Effect<ReadonlyArray<ApprovalMessage>> =>
  Effect.map(
    Effect.orDie(
      messageRows.all(sql`
        SELECT number, sender, sent_by_id, sent_by_name, sent_at, text
        FROM approval_messages
        WHERE org_id = ${org_id}
          AND approval_id = ${id}
          AND number > ${Math.min(after, 2 * MAX_MESSAGES)}
        ORDER BY number
        LIMIT ${2 * MAX_MESSAGES}
      `)
    ),
    Arr.map(({ sent_by_id, sent_by_name, ...message }) => ({
      ...message,
      sent_by: { id: sent_by_id, name: sent_by_name }
    }))
  )

const sentRows = rowsOf(
  Schema.Struct({
    total: Schema.Int,
    recent: Schema.Int,
    oldest_recent: Schema.NullOr(TimestampFromDate)
  })
)

/** How many messages one side has sent on an approval, in all and since a time. */
export const countSent = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: ApprovalId,
  sender: MessageSender,
  since: Timestamp
) =>
  sentRows.first(sql`
    SELECT
      count(*)::int AS total,
      count(*) FILTER (WHERE sent_at > ${toDate(since)})::int AS recent,
      min(sent_at) FILTER (WHERE sent_at > ${toDate(since)}) AS oldest_recent
    FROM approval_messages
    WHERE org_id = ${org_id}
      AND approval_id = ${id}
      AND sender = ${sender}
  `)

/** The number of the next message. The approval's row, which the caller has locked, keeps the newest number of each side. */
export const takeMessageNumber = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: ApprovalId,
  sender: MessageSender
) =>
  Effect.map(
    sql<{ readonly number: number }>`
      UPDATE approvals
      SET
        newest_question = CASE WHEN ${sender === "reviewer"} THEN greatest(newest_question, newest_answer) + 1 ELSE newest_question END,
        newest_answer = CASE WHEN ${sender === "agent"} THEN greatest(newest_question, newest_answer) + 1 ELSE newest_answer END
      WHERE org_id = ${org_id}
        AND approval_id = ${id}
      RETURNING greatest(newest_question, newest_answer) AS number
    `,
    ([row]) => row?.number ?? 0
  )

export const insertMessage = (
  sql: SqlClient.SqlClient,
  { approval_id, org_id, session_id }: ApprovalRow,
  { number, sender, sent_at, sent_by, text }: ApprovalMessage
) => sql`
  INSERT INTO approval_messages (
    org_id, approval_id, number, session_id, sender, sent_by_id, sent_by_name, sent_at, text
  )
  VALUES (
    ${org_id}, ${approval_id}, ${number}, ${session_id}, ${sender}, ${sent_by.id}, ${sent_by.name},
    ${toDate(sent_at)}, ${text}
  )
`
