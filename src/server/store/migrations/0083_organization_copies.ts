import { Effect } from "effect"
import { comments } from "./comments.ts"
import { statements } from "./statements.ts"

/**
 * A copy of an organization that another installation loads before the move, while the organization works. The installation that the
 * organization leaves keeps a digest of each copied row, so that the export after the copy has only the rows that differ.
 *
 * @blocks `organization_moves` has a row for each organization that ever moved: reading them takes no time.
 * @incompatible The constraint allows one more state. A replica of the previous release treats it as it treats any state of a fenced
 * organization that arrives: it refuses its requests and holds its deliveries.
 */
export default Effect.andThen(
  statements(
    `CREATE TABLE organization_copies (
      org_id text COLLATE "C" PRIMARY KEY,
      copy_id text COLLATE "C" NOT NULL,
      name text NOT NULL,
      created_at timestamptz NOT NULL,
      schema_version integer NOT NULL,
      row_count bigint NOT NULL,
      receipt text COLLATE "C" NOT NULL
    )`,
    `CREATE TABLE organization_copy_rows (
      org_id text COLLATE "C" NOT NULL,
      table_name text COLLATE "C" NOT NULL,
      key text COLLATE "C" NOT NULL,
      digest uuid NOT NULL,
      PRIMARY KEY (org_id, table_name, key)
    )`,
    `ALTER TABLE organization_moves ADD COLUMN copy_id text COLLATE "C"`,
    `ALTER TABLE organization_moves DROP CONSTRAINT organization_moves_state_check`,
    `ALTER TABLE organization_moves ADD CONSTRAINT organization_moves_state_check CHECK (
      state IN ('frozen', 'moved', 'left', 'copied', 'importing', 'staged', 'arrived', 'discarded')
    ) NOT VALID`,
    `ALTER TABLE organization_moves VALIDATE CONSTRAINT organization_moves_state_check`,
    // A changed run of a copy is deleted and inserted again, and keeps the rows that this trigger would delete.
    `CREATE OR REPLACE TRIGGER runs_removed AFTER DELETE ON runs
     FOR EACH ROW WHEN (current_setting('countersign.importing', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION run_removed()`
  ),
  comments({
    organization_moves: [
      "The last move of an organization from or to this installation. Not moved itself.",
      {
        copy_id:
          "Where it arrives: the copy whose rows are here, which the import completes; null: it has none.",
        state:
          "Here the organization leaves: frozen (exported, can be aborted), moved (belongs to the other installation), left (copy deleted). Here it arrives: copied (an earlier copy is here), importing, staged (imported, not active), arrived (active), discarded (import aborted)."
      }
    ],
    organization_copies: [
      "The last copy of an organization that another installation may have, until its move ends. Not moved itself.",
      {
        org_id: "Organization that was copied.",
        copy_id: "Id of the copy, which its file contains.",
        name: "Name of the organization.",
        created_at: "When the copy was made.",
        schema_version: "Number of the newest migration at that time.",
        row_count: "Rows in the copy.",
        receipt: "SHA-256 of the code that proves that the whole copy was loaded, in hex."
      }
    ],
    organization_copy_rows: [
      "Digests of the copied rows, which show the rows that have changed since.",
      {
        org_id: "Organization that was copied.",
        table_name: "Table of the row.",
        key: "Primary key of the row without org_id: a JSON array of texts.",
        digest: "First 16 bytes of the SHA-256 of the row."
      }
    ]
  })
)
