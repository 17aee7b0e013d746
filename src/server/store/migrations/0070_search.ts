import { Effect } from "effect"
import { comments, orgId } from "./comments.ts"
import { statements } from "./statements.ts"

/**
 * The words of approvals and sessions, for the console's search. They are in a table of their own, which is filled when an organization
 * searches: an index on the tables themselves would cost every session and every step several times its own insert. Replicas of an older
 * version delete sessions without knowing the table: the foreign key deletes their words.
 */
export default Effect.andThen(
  statements(
    `CREATE TABLE search_documents (
      org_id text COLLATE "C" NOT NULL,
      document_id text COLLATE "C" NOT NULL,
      session_id text COLLATE "C" NOT NULL,
      words tsvector NOT NULL,
      PRIMARY KEY (org_id, document_id),
      CONSTRAINT search_documents_session_fkey FOREIGN KEY (org_id, session_id)
        REFERENCES agent_sessions (org_id, session_id) ON DELETE CASCADE
    )`,
    `CREATE INDEX search_documents_session ON search_documents (org_id, session_id)`,
    // No list of pending entries: every search would read it.
    `CREATE INDEX search_documents_words ON search_documents USING gin (words) WITH (fastupdate = off)`,
    `CREATE TABLE search_progress (
      org_id text COLLATE "C" NOT NULL,
      kind text COLLATE "C" NOT NULL,
      indexed_before text COLLATE "C" NOT NULL,
      ranges json NOT NULL,
      PRIMARY KEY (org_id, kind)
    )`
  ),
  comments({
    search_documents: [
      "Words of approvals and sessions, for the console's search. Filled when an organization searches.",
      {
        ...orgId,
        document_id: "Id of the approval, apr_…, or of the session, ses_….",
        session_id: "Session that it belongs to.",
        words:
          "Distinct words, each after the last 8 characters of org_id and a colon: the entries of the GIN index belong to one organization."
      }
    ],
    search_progress: [
      "How far the records of an organization are in search_documents.",
      {
        ...orgId,
        kind: "Kind of record: approval or session.",
        indexed_before: "Records with lower ids are indexed, or in a range.",
        ranges:
          "Ranges of ids that are to be indexed, newest first, each from its end: before (exclusive) and from (inclusive)."
      }
    ]
  })
)
