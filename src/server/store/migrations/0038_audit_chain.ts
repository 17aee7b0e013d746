import { Effect } from "effect"
import { comments, orgId } from "./comments.ts"
import { statements } from "./statements.ts"

/**
 * Chains the audit log by hashes, one chain per organization. The trigger is deferred to the commit: the head of the
 * chain is then the last lock of a transaction and is held only while it commits, so that no audited change waits for
 * another one's work, and a statement that writes for many organizations does not wait for one of them. The order of
 * the chain is the order of commits.
 *
 * The text that is hashed is that of `JSON.stringify` for the same array (`domain/identity/AuditChain.ts`). Existing
 * entries are chained in the order of their ids; the log takes no new entries meanwhile.
 */
export default Effect.andThen(
  statements(
    `CREATE TABLE audit_chain (
      org_id text COLLATE "C" NOT NULL,
      position bigint NOT NULL,
      entry_id text COLLATE "C" NOT NULL,
      previous_digest bytea NOT NULL,
      digest bytea NOT NULL,
      PRIMARY KEY (org_id, position)
    )`,
    `CREATE UNIQUE INDEX audit_chain_entry ON audit_chain (org_id, entry_id)`,
    `CREATE TABLE audit_heads (
      org_id text COLLATE "C" PRIMARY KEY,
      position bigint NOT NULL,
      previous_digest bytea NOT NULL,
      digest bytea NOT NULL
    ) WITH (fillfactor = 50)`,
    `CREATE FUNCTION audit_chain_digest(previous_digest bytea, "position" bigint, entry audit_log) RETURNS bytea LANGUAGE sql STABLE AS $$
      SELECT sha256(convert_to(concat(
        '["', encode(previous_digest, 'hex'), '",', "position", ',', to_json(entry.org_id), ',', to_json(entry.entry_id), ',',
        to_json(entry.action), ',', to_json(entry.target_id), ',', coalesce(to_json(entry.actor_id), 'null'), ',',
        coalesce(to_json(entry.actor_name), 'null'), ',"',
        to_char(entry.occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), '",',
        coalesce(to_json(entry.request_id), 'null'), ',', entry.detail, ']'
      ), 'UTF8'))
    $$`,
    `CREATE FUNCTION audit_chain_append(entry audit_log) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
      LOOP
        WITH head AS (
          UPDATE audit_heads SET
            position = position + 1,
            previous_digest = digest,
            digest = audit_chain_digest(digest, position + 1, entry)
          WHERE org_id = entry.org_id
          RETURNING *
        )
        INSERT INTO audit_chain
        SELECT org_id, position, entry.entry_id, previous_digest, digest FROM head;
        EXIT WHEN FOUND;
        INSERT INTO audit_heads
        SELECT entry.org_id, 0, zeros, zeros FROM decode(repeat('00', 32), 'hex') AS zeros
        ON CONFLICT DO NOTHING;
      END LOOP;
    END
    $$`,
    `CREATE FUNCTION audit_log_chain() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM audit_chain_append(NEW);
      RETURN NULL;
    END
    $$`,
    `CREATE CONSTRAINT TRIGGER audit_log_chain AFTER INSERT ON audit_log
      DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION audit_log_chain()`,
    // Not by the function above: a transaction cannot remove the versions of a row that it has updated, and would walk through all of them.
    `DO $$
    DECLARE
      entry audit_log;
      newest audit_chain;
    BEGIN
      FOR entry IN SELECT * FROM audit_log ORDER BY org_id, entry_id LOOP
        IF newest.org_id IS DISTINCT FROM entry.org_id THEN
          newest := ROW(entry.org_id, 0, NULL, NULL, decode(repeat('00', 32), 'hex'));
        END IF;
        newest.position := newest.position + 1;
        newest.entry_id := entry.entry_id;
        newest.previous_digest := newest.digest;
        newest.digest := audit_chain_digest(newest.previous_digest, newest.position, entry);
        INSERT INTO audit_chain VALUES (newest.*);
      END LOOP;
    END
    $$`,
    `INSERT INTO audit_heads
      SELECT DISTINCT ON (org_id) org_id, position, previous_digest, digest FROM audit_chain ORDER BY org_id, position DESC`,
    `CREATE TRIGGER audit_chain_append_only BEFORE UPDATE OR DELETE ON audit_chain
      FOR EACH ROW EXECUTE FUNCTION audit_log_append_only()`,
    `CREATE TRIGGER audit_chain_keeps_all BEFORE TRUNCATE ON audit_chain
      FOR EACH STATEMENT EXECUTE FUNCTION audit_log_append_only()`
  ),
  comments({
    audit_chain: [
      "Hash chain of the audit log: a row for each entry, in the order of commits. Retention deletes from the beginning.",
      {
        ...orgId,
        position: "Number of the entry in the organization's chain, from 1.",
        entry_id: "Entry of the audit log.",
        previous_digest: "Digest at the position before; zeros at position 1.",
        digest: "SHA-256 of the previous digest, the position and the entry."
      }
    ],
    audit_heads: [
      "Newest position of each organization's audit chain. Its lock orders concurrent commits.",
      {
        ...orgId,
        position: "Newest position.",
        previous_digest: "Digest at the position before; zeros at position 0 and 1.",
        digest: "Digest at the newest position."
      }
    ]
  })
)
