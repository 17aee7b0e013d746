import { statements } from "./statements.ts"

/**
 * The triggers of a partitioned table run with the name of the partition. So the fence refused attempts of deliveries, instead of skipping them, and
 * the statement that records results failed for all organizations of its batch.
 */
export default statements(
  `CREATE OR REPLACE FUNCTION organization_move_fence() RETURNS trigger LANGUAGE plpgsql AS $function$
    BEGIN
      IF current_setting('countersign.moving', true) = 'on'
        OR NOT EXISTS (
          SELECT FROM organization_moves
          WHERE org_id = CASE TG_OP WHEN 'INSERT' THEN NEW.org_id ELSE OLD.org_id END
            AND is_fenced
        )
      THEN
        RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
      END IF;
      IF TG_OP = 'DELETE'
        OR TG_TABLE_NAME IN (
          'api_key_uses', 'deliveries', 'delivery_attempts', 'delivery_counts', 'delivery_destinations', 'delivery_queue',
          'erased_traces', 'organization_usage', 'search_documents', 'search_progress', 'secret_changes', 'telemetry_batches'
        )
        OR starts_with(TG_TABLE_NAME, 'delivery_attempts_')
        OR TG_OP = 'UPDATE' AND TG_TABLE_NAME IN ('comparisons', 'console_sessions', 'deletions', 'telemetry_destinations')
      THEN
        RETURN NULL;
      END IF;
      RAISE EXCEPTION 'organization % is moving to another installation', NEW.org_id
        USING ERRCODE = 'CSM01';
    END
  $function$`
)
