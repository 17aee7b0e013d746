import type { AgentSession } from "../../../domain/approvals/AgentSession.ts"

/** The most values of the metadata in a title. */
const MAX_VALUES = 2

/** What tells a session apart in the title of a tab: the first short values of its metadata, else its id. */
export const sessionTitle = ({ metadata, session_id }: AgentSession): ReadonlyArray<string> => {
  const values = metadataValues(metadata)
  return values.length === 0 ? [session_id.slice(0, 12)] : values.slice(0, MAX_VALUES)
}

/** The texts and numbers of a session's metadata, such as a ticket's number. */
export const metadataValues = (metadata: AgentSession["metadata"]): ReadonlyArray<string> =>
  Object.values(metadata).flatMap((value) =>
    (typeof value === "string" && value.trim() !== "") || typeof value === "number" ? [String(value)] : []
  )
