import { Effect } from "effect"
import { comments } from "./comments.ts"
import { statements } from "./statements.ts"

/** An import brings the rows that these triggers would write, so it turns them off for its transaction. */
const NOT_IMPORTING = `current_setting('countersign.importing', true) IS DISTINCT FROM 'on'`

/** A constraint trigger cannot be replaced. */
const secretChanged = (table: string, columns: string): ReadonlyArray<string> => [
  `DROP TRIGGER ${table}_secret_changed ON ${table}`,
  `CREATE CONSTRAINT TRIGGER ${table}_secret_changed AFTER INSERT OR UPDATE OF ${columns} ON ${table}
   DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (${NOT_IMPORTING}) EXECUTE FUNCTION secret_changed()`
]

/**
 * An organization that moves between installations is fenced: triggers, which the move creates for it alone, refuse its
 * writes whoever sends them, so that a process which missed the beginning of the move cannot change what was exported.
 *
 * Statements that write rows of many organizations at once, such as results of deliveries, must not fail for one of them: in
 * their tables, and for deletions by retention, the fence skips the row instead. No request writes to these tables alone.
 */
const FENCE = `
  CREATE FUNCTION organization_move_fence() RETURNS trigger LANGUAGE plpgsql AS $function$
    BEGIN
      IF current_setting('countersign.moving', true) = 'on' THEN
        RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
      END IF;
      IF TG_OP = 'DELETE'
        OR TG_TABLE_NAME IN (
          'api_key_uses', 'deliveries', 'delivery_attempts', 'delivery_counts', 'delivery_destinations', 'delivery_queue',
          'erased_traces', 'organization_usage', 'search_documents', 'search_progress', 'secret_changes', 'telemetry_batches'
        )
        OR TG_OP = 'UPDATE' AND TG_TABLE_NAME IN ('comparisons', 'console_sessions', 'deletions', 'telemetry_destinations')
      THEN
        RETURN NULL;
      END IF;
      RAISE EXCEPTION 'organization % is moving to another installation', NEW.org_id
        USING ERRCODE = 'CSM01';
    END
  $function$`

/** Moves of organizations between installations. */
export default Effect.andThen(
  statements(
    `CREATE TABLE organization_moves (
      org_id text COLLATE "C" PRIMARY KEY,
      move_id text COLLATE "C" NOT NULL,
      name text NOT NULL,
      state text NOT NULL CHECK (state IN ('frozen', 'moved', 'left', 'importing', 'staged', 'arrived', 'discarded')),
      is_fenced boolean NOT NULL,
      started_at timestamptz NOT NULL,
      changed_at timestamptz NOT NULL,
      moved_to text,
      row_count bigint,
      receipt text COLLATE "C",
      release_code text COLLATE "C",
      activation_code text COLLATE "C"
    )`,
    `CREATE INDEX organization_moves_fenced ON organization_moves (org_id) WHERE is_fenced`,
    `CREATE TABLE organization_move_replicas (
      org_id text COLLATE "C" NOT NULL REFERENCES organization_moves (org_id) ON DELETE CASCADE,
      replica text COLLATE "C" NOT NULL,
      in_flight integer NOT NULL,
      seen_at timestamptz NOT NULL,
      PRIMARY KEY (org_id, replica)
    )`,
    FENCE,
    `CREATE OR REPLACE TRIGGER deliveries_added AFTER INSERT ON deliveries REFERENCING NEW TABLE AS added
     FOR EACH STATEMENT WHEN (${NOT_IMPORTING}) EXECUTE FUNCTION deliveries_added()`,
    `CREATE OR REPLACE TRIGGER feedback_added AFTER INSERT ON feedback REFERENCING NEW TABLE AS added
     FOR EACH STATEMENT WHEN (${NOT_IMPORTING}) EXECUTE FUNCTION feedback_added()`,
    `CREATE OR REPLACE TRIGGER feedback_run BEFORE INSERT ON feedback
     FOR EACH ROW WHEN (NEW.run_id IS NULL AND ${NOT_IMPORTING}) EXECUTE FUNCTION feedback_run()`,
    `CREATE OR REPLACE TRIGGER feedback_scores_added AFTER INSERT ON feedback REFERENCING NEW TABLE AS added
     FOR EACH STATEMENT WHEN (${NOT_IMPORTING}) EXECUTE FUNCTION feedback_scores_added()`,
    `CREATE OR REPLACE TRIGGER runs_counted AFTER INSERT ON runs REFERENCING NEW TABLE AS added
     FOR EACH STATEMENT WHEN (${NOT_IMPORTING}) EXECUTE FUNCTION runs_counted()`,
    `CREATE OR REPLACE TRIGGER runs_metadata_added AFTER INSERT ON runs
     FOR EACH ROW WHEN (NEW.metadata::text <> '{}' AND ${NOT_IMPORTING}) EXECUTE FUNCTION run_metadata_added()`,
    `DROP TRIGGER audit_log_chain ON audit_log`,
    `CREATE CONSTRAINT TRIGGER audit_log_chain AFTER INSERT ON audit_log
     DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (${NOT_IMPORTING}) EXECUTE FUNCTION audit_log_chain()`,
    ...secretChanged("notification_endpoints", "secret"),
    ...secretChanged("provider_keys", "api_key, headers"),
    ...secretChanged("redaction_settings", "rules"),
    ...secretChanged("telemetry_destinations", "headers")
  ),
  comments({
    organization_moves: [
      "The last move of an organization from or to this installation. Not moved itself.",
      {
        org_id: "Organization that moves, or moved.",
        move_id: "Id of the export, which its file contains.",
        name: "Name of the organization.",
        state:
          "Here the organization leaves: frozen (exported, can be aborted), moved (belongs to the other installation), left (copy deleted). Here it arrives: importing, staged (imported, not active), arrived (active), discarded (import aborted).",
        is_fenced: "Whether requests and background work of the organization are refused here.",
        started_at: "When the move began here.",
        changed_at: "When the state last changed.",
        moved_to: "Base URL of the installation that it moved to; null: not given.",
        row_count: "Rows in the file.",
        receipt:
          "Proves that the file was imported. Where it arrives: the code; where it leaves: its SHA-256, in hex.",
        release_code:
          "Activates the imported copy. Where it leaves: the code; where it arrives: its SHA-256, in hex.",
        activation_code:
          "Proves that the imported copy is active. Where it arrives: the code; where it leaves: its SHA-256, in hex."
      }
    ],
    organization_move_replicas: [
      "Running replicas, and what they still work on for an organization that is frozen.",
      {
        org_id: "Organization that moves.",
        replica: "Random id of the process.",
        in_flight: "Writing requests and deliveries in progress.",
        seen_at: "When the replica last reported."
      }
    ]
  })
)
